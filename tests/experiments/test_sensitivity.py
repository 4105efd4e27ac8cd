"""What the results hinge on: the questions, and the page that is made from their runs."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from pmafl import comparison
from pmafl.cli import app
from pmafl.comparison import Estimate
from pmafl.errors import InputError
from pmafl.experiments import fig7, sensitivity
from pmafl.experiments.archive import Archive
from pmafl.experiments.questions import Amount, Question, questions
from pmafl.experiments.study import Curve, Scale
from tests.experiments.conftest import run_here
from tests.processes import one_after_another

HERE = ("local", 1, None)


def test_every_question_asks_for_settings_that_exist(tmp_path):
    found = questions()
    assert len({(question.name, question.dataset) for question in found}) == len(found)
    for question in found:
        scale = Scale(question.dataset)
        for curve in question.curves:
            comparison.grid(question.dataset, scale.settings(curve), {}, [1], tmp_path)
        for pair in question.against:
            assert set(pair) <= set(question.methods)


@pytest.fixture
def asked(small, monkeypatch):
    """Two small questions, of samples and of accuracy."""
    amount = Amount(seeds=2, wireless_seeds=2, rounds=3, overrides=small)
    whole = {question.name: question for question in questions() if question.dataset == "mnist"}
    training = whole["training"]
    curves = tuple(
        c for c in training.curves if c.value == training.values[0] and c.method in ("pma", "fedavg")
    )
    few = [
        replace(whole["ocean"], learned=()),
        replace(training, curves=curves, against=(("pma", "fedavg"),), learned=training.learned[:1]),
    ]
    monkeypatch.setattr(sensitivity, "questions", lambda: few)
    monkeypatch.setattr("pmafl.comparison.run_tasks", one_after_another)
    return amount, few


def test_the_page_has_the_numbers_of_the_runs_and_is_made_again_without_them(asked, tmp_path):
    amount, (ocean, training) = asked
    results = tmp_path / "results"
    for question in (ocean, training):
        sensitivity.make(question, amount, tmp_path / "runs", results, HERE)
    page = sensitivity.write(results, amount).read_text()
    for head in ("samples per round", "energy per device and round (J)", "accuracy (%)"):
        assert page.count(f"| {head}, 2 seeds | ") == 1
    assert "set-expansion schedules " in page
    assert "pma ends " in page
    (tmp_path / "runs").rename(tmp_path / "gone")
    assert sensitivity.known_amount(results) == amount
    figures = CliRunner().invoke(app, ["reproduce", "figures", "--results", str(results)])
    assert figures.output == f"{results / sensitivity.PAGE} is written\n"
    assert (results / sensitivity.PAGE).read_text() == page
    for question in (ocean, training):
        assert (results / f"{sensitivity.evidence_file(question)}.png").is_file()


def test_accuracies_stand_beside_samples_where_they_are_run(asked, tmp_path):
    amount, (ocean, _) = asked
    few = tuple(curve for curve in ocean.curves if curve.method in ("set-expansion", "ocean, highest clock"))
    curves = tuple(
        replace(curve, value=f"{time:g} s", settings={**curve.settings, "cell.deadline_s": time})
        for time in (1.8, 2, 2.2)
        for curve in few
    )
    pair = (few[0].method, few[1].method)
    both = replace(ocean, curves=curves, against=(pair,), learned=("1.8 s",))
    sensitivity.make(both, amount, tmp_path / "runs", tmp_path, HERE)
    wider = replace(both, learned=("1.8 s", "2 s"))
    samples, accuracies = sensitivity._answers(wider, amount, Archive(tmp_path))
    assert (samples.learned, samples.values) == (False, ["1.8 s", "2 s", "2.2 s"])
    assert (accuracies.learned, accuracies.values) == (True, ["1.8 s"])
    ends = [accuracies.numbers(method, "1.8 s", "accuracy").mean() for method in pair]
    assert accuracies.difference(*pair, "1.8 s").mean == pytest.approx(ends[0] - ends[1])
    (said,) = sensitivity.sentences(accuracies)
    assert said.startswith(f"{pair[0]} ends ")
    assert "at 1.8 s (" in said
    assert "2 s" not in said


def test_choices_that_are_the_presets_have_the_runs_of_the_figures(tmp_path):
    scale = Scale("mnist", seeds=1)

    def runs(curves):
        """Of each curve that fixes no split of its own, by its name."""
        jobs = {
            curve.name: comparison.grid("mnist", scale.settings(curve), {}, [1], tmp_path) for curve in curves
        }
        return {name: job.directory for name, (job,) in jobs.items()}

    asked = {question.name: question for question in questions() if question.dataset == "mnist"}
    known = runs(fig7.curves(scale))
    tradeoff, empty = runs(asked["tradeoff"].curves), runs(asked["empty-queues"].curves)
    oceans, cycles = runs(asked["ocean"].curves), runs(asked["cycles"].curves)
    for value in ("V = 0.001", "V = 0.01", "V = 0.1"):
        for policy in ("set-expansion", "ocean"):
            one = known[f"{policy}, {value}"]
            assert one == tradeoff[f"{policy}, {value}"] == empty[f"{policy}, least-energy, {value}"]
            assert one != empty[f"{policy}, minimum-band, {value}"]
    preset = known["ocean, V = 0.001"]
    assert preset == oceans["ocean, highest clock, the preset"] == cycles["ocean, zeta = 0.25"]


def test_what_was_not_run_is_said(asked, tmp_path):
    page = sensitivity.write(tmp_path, asked[0]).read_text()
    assert page.count("Not run.") == 2
    assert "survive" not in page


def test_a_page_of_fewer_runs_never_replaces_one_of_more(asked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    amount, _ = asked
    (tmp_path / "results").mkdir()
    page = sensitivity.write(tmp_path / "results", replace(amount, wireless_seeds=3))
    before = page.read_bytes()
    options = [word for key, value in amount.overrides.items() for word in ("--set", f"{key}={value}")]
    words = ["sensitivity", "--only", "ocean, *", "--wireless-seeds", "1", "--seeds", "2", "--rounds", "3"]
    said = CliRunner().invoke(app, ["reproduce", *words, *options], catch_exceptions=False).output
    assert "results/sensitivity.json was made with 3 wireless seeds, more than now, and is kept" in said
    assert page.read_bytes() == before
    assert (tmp_path / "runs" / "reproduce" / "results" / sensitivity.PAGE).is_file()
    with pytest.raises(InputError, match="more than now; give another --results"):
        CliRunner().invoke(
            app, ["reproduce", *words, *options, "--results", "results"], catch_exceptions=False
        )


def test_a_page_of_other_settings_or_rounds_never_replaces_one(asked, tmp_path):
    amount, _ = asked
    sensitivity.write(tmp_path, amount)
    assert sensitivity.holds_more(tmp_path, amount) == ""
    assert "with 3 rounds, unlike now" in sensitivity.holds_more(tmp_path, replace(amount, rounds=4))
    other = replace(amount, overrides={**amount.overrides, "cell.deadline_s": 3.0})
    assert "cell.bandwidth_hz = 200000.0, unlike now" in sensitivity.holds_more(tmp_path, other)


def test_methods_are_compared_by_the_seeds_that_both_have(asked, tmp_path):
    amount, (_, training) = asked
    more, value = replace(amount, seeds=3), training.values[0]
    sensitivity.make(training, amount, tmp_path / "runs", tmp_path, HERE)
    study = sensitivity._study(training, more, tmp_path / "runs", lambda jobs: None, Archive(tmp_path))
    third = [job for job in study.jobs if job.seed == 3 and ("method", "pma") in job.variation]
    run_here(third)
    Archive(tmp_path, directories=True).keep(sensitivity.evidence_file(training), third)
    (answer,) = sensitivity._answers(training, more, Archive(tmp_path))
    assert answer.numbers("pma", value, "accuracy").size == 3
    assert answer.seeds == "2 to 3 seeds"
    assert answer.common("pma", "fedavg", value) == [1, 2]
    numbers = [answer.numbers(method, value, "accuracy", [1, 2]) for method in ("pma", "fedavg")]
    assert answer.difference("pma", "fedavg", value).mean == pytest.approx((numbers[0] - numbers[1]).mean())
    assert "| pma | " in (page := sensitivity.write(tmp_path, more).read_text())
    assert "accuracy (%), 2 to 3 seeds" in page


def test_a_method_that_schedules_nobody_is_not_compared(asked, tmp_path, monkeypatch):
    amount, (ocean, _) = asked
    sensitivity.make(ocean, amount, tmp_path / "runs", tmp_path, HERE)
    (answer,) = sensitivity._answers(ocean, amount, Archive(tmp_path))
    found = sensitivity.summaries

    def summaries(kept, metric):
        nobody = kept[0].settings["policy.name"] == "ocean"
        return np.zeros(len(kept)) if nobody else found(kept, metric)

    monkeypatch.setattr(sensitivity, "summaries", summaries)
    assert all(" not comparable with " in said for said in sensitivity.sentences(answer))
    assert list(sensitivity.survivals([answer])) == []


def test_a_training_that_diverged_is_not_compared(asked, tmp_path, monkeypatch):
    amount, (_, training) = asked
    sensitivity.make(training, amount, tmp_path / "runs", tmp_path / "results", HERE)
    found = sensitivity.final_accuracy

    def final_accuracy(kept):
        diverged = kept[0].settings["learning.algorithm"] == "fedavg"
        return np.full(len(kept), np.nan) if diverged else found(kept)

    monkeypatch.setattr(sensitivity, "final_accuracy", final_accuracy)
    page = sensitivity.write(tmp_path / "results", amount).read_text()
    assert "| fedavg | no number |" in page
    assert "pma ends not comparable with fedavg at whole batches with momentum 0.9 (no number)." in page
    assert "PMA-FL ends above FedAvg" not in page


@pytest.mark.parametrize(
    ("mean", "half_width", "shown"),
    [
        (11280.4, 76.2, "11280 ± 76"),
        (97.768, 0.834, "97.77 ± 0.83"),
        (0.1059, 9e-5, "0.1059 ± 0.0001"),
        (0.0, 0.0, "0.000 ± 0.000"),
        (float("nan"), float("nan"), "no number"),
    ],
)
def test_widths_have_the_decimals_of_their_means(mean, half_width, shown):
    assert sensitivity._shown(Estimate(mean, half_width)) == shown


class Known:
    """An answer with given differences."""

    def __init__(self, question, learned, differences):
        self.question = question
        self.learned = learned
        self.values = question.values
        self.differences = differences

    def difference(self, one, other, value):
        return self.differences[one, other, value]

    def compared(self, one, other):
        return self.values

    def behind(self, one, other, value):
        return f"{one} {value}", f"{other} {value}"


def test_it_is_said_which_choices_a_claim_does_not_survive():
    above, noise, level, below = Estimate(5, 1), Estimate(5, 6), Estimate(0.1, 0.2), Estimate(-5, 1)
    found = {
        sensitivity.OCEAN_SPLIT: below,
        "ocean": above,
        "ocean, frames of 20": level,
        "ocean, rising weights": noise,
    }
    pairs = tuple(("set-expansion", other) for other in found)
    values = (Curve("x", "the preset", {}),)
    oceans = Known(
        Question("ocean", "", "cifar10", values, pairs),
        False,
        {(*pair, "the preset"): found[pair[1]] for pair in pairs},
    )
    values, pair = (Curve("x", "whole", {}), Curve("x", "batches", {})), ("pma", "fedavg")
    training = Known(
        Question("training", "", "mnist", values, (pair,)),
        True,
        {(*pair, "whole"): above, (*pair, "batches"): above},
    )
    more = "Set expansion schedules more samples than OCEAN"
    assert list(sensitivity.survivals([oceans, training, oceans])) == [
        f"**{more}** holds under 1 of 3 choices; not on CIFAR-10 at the preset (frames of 20); "
        "undecided on CIFAR-10 at the preset (rising weights).",
        f"**{more} with its best fixed split** holds under 0 of 1 choices; not on CIFAR-10 at the preset.",
        "**PMA-FL ends above FedAvg** holds under 2 of 2 choices.",
    ]
