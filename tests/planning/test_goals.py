import math
from types import SimpleNamespace

import numpy as np
import pytest

from pmafl.errors import InputError
from pmafl.planning import in_words, parse_goal
from pmafl.planning.goals import FORMS


def forecast(turns=(1.0, 2.0, 0.5, 4.0), lives=(800.0, 900.0, 1000.0), samples=5000.0, deadline=20.0):
    turns = np.array(turns)
    return SimpleNamespace(
        turns_per_day=turns,
        copies=np.ones(turns.size),
        mean_turns_per_day=turns.mean(),
        lives=SimpleNamespace(first=lives[0], median=lives[1], last=lives[2]),
        samples_per_day=samples,
        choice=SimpleNamespace(deadline_s=deadline),
    )


@pytest.mark.parametrize(
    ("text", "margin"),
    [
        ("battery >= 2 years", 800 / 730.5 - 1),
        ("battery>=400 days", 1.0),
        ("Median battery ≥ 900 days", 0.0),
        ("last battery >= 2000 days", -0.5),
        ("75% of the devices once a day", 0.0),
        ("75% of devices 2 times per 2 days", 0.0),
        ("50% of the devices twice a day", 0.0),
        ("100% of all devices once a day", -0.5),
        ("100% of the devices 15 times within 30 days", 0.0),
        ("200 participations a device within 30 days", 30 * 7.5 / 4 / 200 - 1),
        ("7 participations per device a week", 7 * 7.5 / 4 / 7 - 1),
        ("samples >= 10,000 a day", -0.5),
        ("samples >= 10,000 per day", -0.5),
        ("samples >= 35000 per week", 0.0),
        ("round <= 30 s", 0.5),
        ("round <= 1 minute", 2.0),
    ],
)
def test_goals_are_understood_and_measured(text, margin):
    goal = parse_goal(text)
    assert goal.margin(forecast()) == pytest.approx(margin)
    assert goal.is_met(forecast()) == (margin >= 0)
    assert goal.show(forecast())


def test_the_forms_that_are_shown_are_understood_and_say_per():
    for form in FORMS:
        assert parse_goal(form.strip('"')).text == form.strip('"')
    assert '"samples >= 100000 per day"' in FORMS
    assert parse_goal("samples >= 10,000 a day").show(forecast()) == "5,000 samples per day"


@pytest.mark.parametrize(
    "text",
    ["", "battery", "battery >= two years", "95% of the devices", "devices once a day", "battery <= 2 years"],
)
def test_what_is_not_understood_is_answered_with_the_forms(text):
    with pytest.raises(InputError, match='is not understood; it must be like "battery >= 2 years"'):
        parse_goal(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("120% of the devices once a day", "at most 100%"),
        ("battery >= 0 years", "greater than 0"),
        ("95% of the devices 0 times a day", "greater than 0"),
    ],
)
def test_impossible_numbers_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_goal(text)


def test_times_are_told_in_a_unit_of_their_size():
    assert in_words(1000) == "2.74 years"
    assert in_words(100) == "100 days"
    assert in_words(0.5) == "12 hours"
    assert in_words(math.inf) == "for ever"
