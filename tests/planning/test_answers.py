"""What a plan says, held against what must be true of any plan."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pmafl.errors import InputError
from pmafl.planning import Curve, answer, parse_goal, read_request, unbeaten
from pmafl.planning.forecasts import best_level, typical_levels


def read(path, *goals):
    return answer(read_request(path), [parse_goal(goal) for goal in goals])


@pytest.fixture(scope="module")
def found(write):
    return read(write(), "battery >= 10 years")


def test_it_recommends_the_most_samples_among_those_that_meet_the_goal(write, found):
    most = max(one.samples_per_day for one, met in zip(found.forecasts, found.met, strict=True) if met)
    assert found.forecasts[found.recommended].samples_per_day == pytest.approx(most, rel=2e-3)
    assert found.goals[0].is_met(found.detail)
    assert not all(found.met)


def test_where_no_choice_meets_the_goal_the_nearest_is_shown(write):
    found = read(write(), "battery >= 100 years")
    assert found.recommended is None
    margins = [found.goals[0].margin(one) for one in found.forecasts]
    assert margins[found.shown] == pytest.approx(max(margins), rel=5e-3)


def test_a_goal_about_batteries_needs_batteries(write):
    with pytest.raises(InputError, match=r"needs batteries; give fleet\.battery_wh"):
        read(write(("battery_wh = 5", "")), "battery >= 1 year")


def test_more_rounds_bring_more_samples_and_shorter_lives(found):
    by_choice = {one.choice: one for one in found.forecasts}
    for choice, seldom in by_choice.items():
        if choice.rounds_per_day == 4:
            often = by_choice[replace(choice, rounds_per_day=24)]
            assert often.samples_per_day == pytest.approx(6 * seldom.samples_per_day)
            assert often.lives.first < seldom.lives.first < seldom.lives_without.first


def test_more_band_or_time_never_brings_less(found):
    by_choice = {one.choice: one for one in found.forecasts}
    for choice, one in by_choice.items():
        if choice.band_share < 1:
            assert by_choice[replace(choice, band_share=1.0)].samples_per_day >= 0.999 * one.samples_per_day
        if choice.deadline_s < 8:
            assert by_choice[replace(choice, deadline_s=8.0)].samples_per_day >= 0.999 * one.samples_per_day


def test_nothing_exceeds_budget_band_or_the_devices_there_are(found):
    for one in [*found.forecasts, found.detail]:
        response, problem = one.optimum.response, one.optimum.problem
        assert (response.energy_j <= problem.budget_j * 1.01).all()
        assert one.band_used <= 1.01
        assert (response.turns <= 1 + 1e-9).all()
        assert one.air_time_s_per_day <= one.choice.deadline_s * one.choice.rounds_per_day * 1.01


def test_an_unbeaten_choice_is_beaten_by_none(found):
    scores = [(one.samples_per_day, one.lives.first, -one.choice.deadline_s) for one in found.forecasts]
    for own, best in zip(scores, unbeaten(found.forecasts), strict=True):
        clearly = [
            all(o > 1.01 * s if s > 0 else o > s for o, s in zip(other, own, strict=True)) for other in scores
        ]
        assert not (best and any(clearly))
    assert any(found.best)


def test_everybody_is_counted_once_in_the_rings(found):
    rings, reasons = found.feasibility.rings(), ("taking_part", "deadline", "power", "budget", "band")
    assert sum(ring["devices"] for ring in rings) == 40
    assert all(sum(ring[name] for name in reasons) == ring["devices"] for ring in rings)


def test_the_json_is_json(found):
    text = json.dumps(found.to_dict(), allow_nan=False)
    answer = json.loads(text)
    assert len(answer["choices"]) == 8
    assert answer["choices"][answer["recommended"]]["meets_goals"]
    assert answer["detail"]["prices_in_words"][0].startswith("10% more band: ")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("deadline_s = [2, 8]", "deadline_s = 0.3", "deadline"),
        ("max_power_w = 0.2", "max_power_w = 1e-7", "power"),
        ("budget_j = 0.2", "budget_j = 1e-10", "budget"),
    ],
)
def test_reasons_are_told_apart(write, old, new, reason):
    found = read(write((old, new)))
    count = found.feasibility.count
    assert count(reason) > 20
    assert count(reason) + count("") + count("band") == 40


def test_representatives_say_what_all_devices_say(write, monkeypatch):
    path = write(
        ("devices = 40", "devices = 200"),
        ("[2, 8]", "2"),
        ("budget_j = 0.2", 'budget_j = {distribution = "uniform", low = 0.1, high = 0.3}'),
    )
    whole = read(path)
    monkeypatch.setattr("pmafl.planning.answers.REPRESENTATIVES", 50)
    some = read(path)
    for all_of_them, few in zip(whole.forecasts, some.forecasts, strict=True):
        assert few.samples_per_day == pytest.approx(all_of_them.samples_per_day, rel=0.15)
        assert few.lives.median == pytest.approx(all_of_them.lives.median, rel=0.15)
    assert some.detail.optimum.problem.devices == 200


def test_levels_keep_the_law():
    law = -np.log((np.arange(1024) + 0.5) / 1024)
    levels = typical_levels(law)
    assert levels.size == law.size
    assert np.unique(levels).size < 60
    assert levels.mean() == pytest.approx(law.mean(), rel=0.02)
    assert best_level(law) == pytest.approx(-np.log(1e-9), rel=1e-3)
    assert best_level(np.ones(1024)) == 1.0


def test_accuracy_is_that_of_the_turns_in_all_the_days(write):
    curve = Curve(("run",), (np.array([0.0, 1e6]),), (np.array([0.5, 0.9]),), (np.array([0.1, 0.1]),))
    found = answer(read_request(write()), curve=curve)
    row = found.to_dict()["choices"][0]
    turns = row["turns_per_device_day"] * 365
    assert row["accuracy"]["turns"] == pytest.approx(turns)
    assert row["accuracy"]["accuracy"] == pytest.approx(0.5 + 0.4 * turns / 1e6)
    assert not row["accuracy"]["extrapolates"]
