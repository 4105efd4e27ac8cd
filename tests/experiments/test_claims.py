"""The table of claims: its rules, its numbers and what it does with runs that are missing."""

import gzip
import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmafl.comparison import Estimate, unfinished
from pmafl.errors import InputError
from pmafl.experiments import claims, figure_module, measures, reasons, report, statements
from pmafl.experiments.archive import ALLOCATIONS, Archive, Kept
from pmafl.experiments.claims import (
    DIRECTION,
    NOT,
    NOT_RUN,
    NOT_TESTED,
    REPRODUCED,
    UNDECIDED,
    Claim,
    verdict,
)
from pmafl.experiments.evidence import Evidence, allocation_jobs, load_study
from pmafl.experiments.making import draw_again
from pmafl.experiments.study import NotRun, NotTested, Scale, Study, of_curve, prepare
from tests.experiments.conftest import everything, run_here

NAN = math.nan


MADE = ("fig3", "fig5", "fig7")


def keep(study, results):
    """Write a study's figure and what is known of its runs."""
    report.make_directory(results)
    report.write(study, figure_module(study.name), results, {"command": "pmafl reproduce"})
    archive = Archive(results, directories=True)
    file = f"{study.name}-{study.scale.suffix}"
    archive.keep(file, [*study.behind, *study.wireless, *study.jobs], allocation_jobs(study))


@pytest.fixture(scope="module")
def place(make, tmp_path_factory):
    """Results and runs of the figures that are made."""
    results = tmp_path_factory.mktemp("results")
    for name in MADE:
        keep(make(name), results)
    return results


def evidence_of(name, results):
    return Evidence(load_study(name, "mnist", "chosen", results, Archive(results)))


@pytest.fixture(scope="module")
def fig7(place):
    return evidence_of("fig7", place)


@pytest.mark.heavy
@pytest.mark.parametrize("name", MADE)
def test_a_study_leaves_no_run_unfinished(make, name):
    study = make(name)
    assert len(study.jobs) > 0
    assert unfinished([*study.jobs, *study.wireless]) == []


@pytest.mark.parametrize(
    ("found", "paper", "expected"),
    [
        (Estimate(3.0, 0.5), 3.13, REPRODUCED),
        (Estimate(1.6, 0.5), 3.13, DIRECTION),  # the interval reaches below half of it
        (Estimate(2.5, 0.5), 3.13, REPRODUCED),
        (Estimate(16.0, 13.0), 3.13, DIRECTION),  # a wide interval holds it and says nothing about its size
        (Estimate(9.0, 0.5), 3.13, DIRECTION),
        (Estimate(0.3, 0.2), 3.13, DIRECTION),
        (Estimate(3.0, 3.5), 3.13, UNDECIDED),  # the interval holds 0
        (Estimate(0.1, 0.5), 3.13, NOT),  # so narrow that the paper's number would show
        (Estimate(-3.0, 0.5), 3.13, NOT),
        (Estimate(0.4, 0.3), None, REPRODUCED),
        (Estimate(0.1, 0.4), None, NOT),
        (Estimate(0.1, 0.6), None, UNDECIDED),
        (Estimate(5.7, 5.8), 11.8, UNDECIDED),  # around 0, but the paper's number would be possible
        (Estimate(-5.0, 5.1), None, NOT),  # whatever it is, it is no gain
        (Estimate(3.0, NAN), 3.13, UNDECIDED),
        (Estimate(-0.1, NAN), None, UNDECIDED),
    ],
)
def test_gains_are_judged_by_their_interval_and_size(found, paper, expected):
    assert verdict("gain", found, paper)[0] == expected


def test_half_a_nat_is_no_small_difference():
    assert verdict("gain", Estimate(0.0, 0.3), None, "nats")[0] == UNDECIDED
    assert verdict("gain", Estimate(0.0, 0.01), None, "nats")[0] == NOT


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Estimate(0.2, 0.2), REPRODUCED),
        (Estimate(0.0, 0.6), UNDECIDED),  # a wide interval is no sign of being alike
        (Estimate(0.4, 0.2), UNDECIDED),
        (Estimate(-0.9, 0.3), NOT),
        (Estimate(0.0, NAN), UNDECIDED),
    ],
)
def test_similar_means_that_the_interval_is_within_half_a_point(found, expected):
    assert verdict("similar", found, None)[0] == expected


@given(mean=st.floats(-20, 20), half_width=st.floats(0, 20), wider=st.floats(0, 20), paper=st.floats(0.1, 20))
def test_noise_never_helps(mean, half_width, wider, paper):
    for kind, number in (("gain", paper), ("gain", None), ("similar", None)):
        before, after = (
            verdict(kind, Estimate(mean, hw), number)[0] for hw in (half_width, half_width + wider)
        )
        assert before == REPRODUCED or after != REPRODUCED


def test_few_devices_of_a_small_fleet_test_nothing(small, out):
    scale = Scale("mnist", seeds=1, wireless_seeds=1, rounds=2, devices=5, overrides=small)
    found = prepare("fig3", figure_module("fig3").curves(scale), scale, out, False, run_here, everything())
    run_here(of_curve(found.jobs, "pma", "1 of 5 devices") + of_curve(found.jobs, "local", "1 of 5 devices"))
    ahead = Claim("x", measures.lead(("pma", 0), ("local", 0)), figure="fig3", dataset="mnist")
    assert claims._numbers(ahead, Evidence(found))["verdict"] == NOT_TESTED


def test_a_whole_model_is_more_to_upload_but_not_more_to_compute():
    rows = {
        claim.text: claim for claim in statements.all_claims() if claim.exact and claim.dataset == "mnist"
    }
    study = Study("fig3", Scale("mnist"), (), (), (), (), None)
    bits = claims._numbers(rows["fedavg needs more bandwidth (bits to upload)"], Evidence(study))
    assert bits["number"] == pytest.approx(100 * (550_346 / 533_248 - 1))
    assert (bits["half_width"], bits["verdict"]) == (None, REPRODUCED)
    assert claims._numbers(rows["fedavg needs more computation"], Evidence(study))["verdict"] == NOT


def test_every_number_of_the_paper_has_a_row():
    claims = statements.all_claims()
    learning, budgets, deadlines = {3.13, 0.79, 11.8, 3.3}, {3.28, 2.59, 1.85, 1.25}, {3.45, 2.3, 2.17, 0.75}
    tradeoffs = {3.46, 1.94, 0.63, 1.05, 1.23}
    assert learning | budgets | deadlines | tradeoffs <= {claim.paper for claim in claims}
    places = " ".join(claim.where for claim in claims)
    assert all(words in places for words in ("29% less", "25% less", "20% less", "12.5% less"))
    assert len({(claim.place("chosen"), claim.text) for claim in claims}) == len(claims)


def test_every_claim_is_about_curves_that_its_figure_has():
    class Anything(Evidence):
        """Has the curves of a study, and the same numbers for all of them."""

        def _jobs(self, jobs, method, value):
            curve = (method, self.study.values[value] if isinstance(value, int) else value)
            assert curve in {(c.method, c.value) for c in self.study.curves}
            return []

        def final(self, method, value, quantity="accuracy"):
            self._jobs([], method, value)
            return np.array([90.0, 91.0])

        def history(self, method, value):
            self._jobs([], method, value)
            return np.array([20.0, 40, 60, 80]), np.full((2, 4), 90.0)

        def wireless(self, method, value, metric):
            self._jobs([], method, value)
            return np.array([5.0, 6.0])

        allocations = (dict.fromkeys(ALLOCATIONS, np.ones(6)),)

    for claim in statements.all_claims():
        curves = tuple(figure_module(claim.figure).curves(Scale(claim.dataset)))
        assert claim.dataset in figure_module(claim.figure).DATASETS
        assert (
            claim.read(Anything(Study(claim.figure, Scale(claim.dataset), curves, (), (), (), None))).ndim
            == 1
        )


def test_a_lead_is_paired_by_seed(fig7, scale):
    one, other = ("set-expansion", "V = 0.1"), ("ocean", "V = 0.001")
    read = measures.lead(one, other)(fig7)
    assert read.shape == (scale.seeds,)
    assert read == pytest.approx(fig7.final(*one) - fig7.final(*other))
    _, values = fig7.history(*one)
    assert fig7.final(*one) == pytest.approx(values[:, -1])  # the last fifth of 4 rounds is one round


def test_energy_and_samples_come_from_the_runs_without_learning(fig7, scale):
    low, high = ("set-expansion", "V = 0.001"), ("set-expansion", "V = 0.1")
    samples = [fig7.wireless(*curve, "scheduled_samples_per_round") for curve in (low, high)]
    assert measures.more(statements.SAMPLES, high, low)(fig7) == pytest.approx(
        100 * (samples[1] / samples[0] - 1)
    )
    assert samples[0].shape == (scale.wireless_seeds,)
    energy = [fig7.wireless(*curve, "energy_per_device_round_j") for curve in (low, high)]
    assert measures.less(statements.ENERGY, low, high)(fig7) == pytest.approx(
        100 * (1 - energy[0] / energy[1])
    )


class Made(Evidence):
    """Evidence with made-up histories."""

    def __init__(self, **histories):
        self.histories = {name: np.array(values, dtype=float) for name, values in histories.items()}

    def history(self, method, value):
        values = self.histories[method]
        return 10.0 * np.arange(1, values.shape[1] + 1), values

    def final(self, method, value, quantity="accuracy"):
        return self.histories[method][:, -1]


def test_rounds_earlier_compares_when_both_reach_the_same():
    runs = Made(pma=[[50, 80, 90, 95], [50, 60, 70, 80]], fedavg=[[10, 20, 79, 78], [10, 75, 70, 75]])
    assert measures.rounds_earlier("fedavg", 0)(runs) == pytest.approx([10, -20])
    diverged = Made(pma=[[50, NAN, NAN, NAN]], fedavg=[[10, 20, 79, 78]])
    assert np.isnan(measures.rounds_earlier("fedavg", 0)(diverged)).all()


def test_rounds_are_told_apart_no_finer_than_tests_lie(fig7):
    between = fig7.study.jobs[0].settings.run.evaluate_every
    claim = Claim("earlier", lambda runs: np.zeros(3), figure="fig7", dataset="mnist", unit="rounds")
    found = claims._numbers(claim, fig7)
    assert (found["half_width"], found["verdict"]) == (between, UNDECIDED)


@pytest.mark.parametrize("order", [("fedavg", "fedprox"), ("fedprox", "fedavg")])
def test_what_diverged_is_not_the_best_of_others(order):
    runs = Made(pma=[[90], [92]], fedavg=[[NAN], [99]], fedprox=[[80], [84]])
    others = [(name, 0) for name in order]
    assert measures.lead_over_best(("pma", 0), others)(runs) == pytest.approx([10, 8])
    assert measures.less_loss(("pma", 0), others)(runs) == pytest.approx([-10, -8])
    alone = measures.lead_over_best(("pma", 0), [("fedavg", 0)])(runs)
    assert np.isnan(alone).tolist() == [True, False]


@pytest.mark.parametrize("diverged", range(3))
def test_where_one_of_the_values_diverged_no_step_is_the_smallest(diverged):
    class Values(Made):
        def final(self, method, value, quantity="accuracy"):
            return np.array([NAN, 90.0]) if value == diverged else np.array([80.0, 80.0 + value])

    assert np.isnan(measures.smallest_step(range(3))(Values())).any()


def test_convergence_is_compared_where_some_run_converges():
    runs = Made(pma=[[50, 80, 80, 95], [50, 60, 70, 80]], fedavg=[[10, 20, 79, 78], [10, 75, 75, 75]])
    assert measures.converged_earlier("fedavg", 0)(runs) == pytest.approx([10, -10])
    with pytest.raises(NotTested, match="accuracies still move when the runs end"):
        measures.converged_earlier("fedavg", 0)(Made(pma=[[50, 60, 70]], fedavg=[[10, 20, 30]]))


def test_swing_is_the_movement_in_the_second_half():
    runs = Made(pma=[[0, 50, 90, 91]], fedavg=[[0, 90, 50, 60]])
    assert measures.extra_swing("fedavg", 0)(runs) == pytest.approx([9])


def test_the_optimum_has_equal_marginal_powers_not_equal_powers(place):
    runs = evidence_of("fig5", place)
    for seen in runs.allocations:
        assert np.abs(seen["marginal_ratio"] - 1).max() < 1e-3
        assert np.median(np.abs(seen["average_ratio"] - 1)) > 0.05
    assert np.all(measures.mostly_free(runs) > -50)


def test_rows_are_written_for_runs_that_are_there_and_for_those_that_are_not(place):
    results = place
    claims.write_claims(statements.all_claims(), results)
    rows = json.loads((results / "CLAIMS.json").read_text())
    run = {row["figure"] for row in rows if row["verdict"] != NOT_RUN}
    assert run == {"fig3", "fig5", "fig7"}
    assert {row["dataset"] for row in rows if row["verdict"] != NOT_RUN} == {"mnist"}
    assert {row["reading"] for row in rows if row["dataset"] == "cifar10"} == {"chosen", "stated"}
    table = (results / "CLAIMS.md").read_text()
    shown = [row for row in rows if row["dataset"] == "mnist"]
    tried = sum(len(row["tried"]) for row in shown)
    assert table.count("\n| ") == len(shown) + tried + 2  # and the heads of two tables


def test_what_is_kept_gives_the_same_files_wherever_it_is(place, tmp_path):
    claims.write_claims(statements.all_claims(), place)
    elsewhere = tmp_path / "results"
    shutil.copytree(place / "evidence", elsewhere / "evidence")
    for manifest in place.glob("fig*.json"):
        shutil.copy(manifest, elsewhere)
    for name in MADE:
        study = load_study(name, "mnist", "chosen", elsewhere, Archive(elsewhere))
        report.write(study, figure_module(name), elsewhere, {"command": "pmafl reproduce"})
    claims.write_claims(statements.all_claims(), elsewhere)
    for path in place.iterdir():
        if path.suffix in (".md", ".json", ".csv"):
            assert (elsewhere / path.name).read_bytes() == path.read_bytes(), path.name


def test_a_figure_whose_runs_are_not_kept_is_left_as_it_is(place, tmp_path):
    shutil.copytree(place / "evidence", tmp_path / "evidence")
    (tmp_path / "evidence" / "fig3-mnist.jsonl.gz").unlink()
    for name in ("fig3", "fig7"):
        shutil.copy(place / f"{name}-mnist.json", tmp_path)
    (tmp_path / "fig3-mnist.png").write_bytes(b"of another time")
    said = list(draw_again(tmp_path))
    assert said == [
        f"{tmp_path / 'fig3-mnist'} is left as it is: its runs are not kept",
        f"{tmp_path / 'fig7-mnist.png'} and its tables are written",
    ]
    assert (tmp_path / "fig3-mnist.png").read_bytes() == b"of another time"


def test_seeds_of_which_a_run_is_missing_are_left_out(make, tmp_path):
    study = make("fig7")
    lead = measures.lead(("set-expansion", "V = 0.1"), ("ocean", "V = 0.1"))
    both = Evidence(study).read(lead)
    keep(study, tmp_path)
    (path,) = (tmp_path / "evidence").iterdir()
    missing = {job.directory.name for job in of_curve(study.jobs, "ocean", "V = 0.1") if job.seed == 1}
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    left = [line for line in lines if json.loads(line)["key"] not in missing]
    assert len(left) < len(lines)
    path.write_bytes(gzip.compress(b"".join(left)))
    assert evidence_of("fig7", tmp_path).read(lead) == pytest.approx(both[1:], abs=1e-4)


def test_what_was_kept_before_stays_when_other_runs_are_added(make, tmp_path):
    study, archive = make("fig7"), Archive(tmp_path, directories=True)
    archive.keep("fig7-mnist", study.jobs[:2])
    archive.keep("fig7-mnist", study.wireless)
    again = Archive(tmp_path)
    assert again.unfinished([*study.jobs[:2], *study.wireless]) == []


def test_what_lacks_a_needed_column_does_not_count_after_others_are_kept(make, tmp_path):
    study = make("fig7")
    first, second = study.jobs[:2]
    Archive(tmp_path, directories=True).keep("fig7-mnist", [first])
    archive = Archive(tmp_path, directories=True, needed=("a column of later versions",))
    gone = replace(first, directory=tmp_path / "gone" / first.directory.name)
    assert archive.find(gone) is None
    archive.keep("fig7-mnist", [second])
    assert archive.find(gone) is None


def test_a_damaged_file_of_runs_is_one_clear_line(make, tmp_path):
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "fig5-mnist.jsonl.gz").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"not the records of runs .* restore it"):
        Archive(tmp_path).find(make("fig7").jobs[0])


@pytest.mark.heavy
def test_a_claim_that_did_not_come_out_is_read_again_elsewhere(make, small, out, tmp_path):
    again = Scale("mnist", seeds=3, wireless_seeds=3, rounds=2, overrides={**small, "cell.deadline_s": 1.0})
    figure = figure_module("fig7")
    stated = Scale("mnist", "stated", seeds=3, wireless_seeds=2, rounds=4, overrides=small)
    studies = [(tmp_path, make("fig7"))]
    for scale, place in ((again, tmp_path / "tried" / "short"), (stated, tmp_path)):
        found = prepare("fig7", figure.curves(scale), scale, out, True, run_here, everything())
        run_here([*found.jobs, *found.wireless])
        studies.append((place, found))
    for place, study in studies:
        keep(study, place)

    def never(runs):
        return -runs.final("set-expansion", "V = 0.1", "loss")

    def always(runs):
        return runs.final("set-expansion", "V = 0.1", "loss")

    def wireless(runs):
        return -runs.wireless("set-expansion", "V = 0.1", "scheduled_samples_per_round")

    table = [Claim(read.__name__, read, figure="fig7", dataset="mnist") for read in (never, always, wireless)]
    rows = claims.judge(table, tmp_path)
    tried = [[entry["what"] for entry in row["tried"]] for row in rows]
    elsewhere = report.how_much(again)
    assert "cell.deadline_s = 1.0" in elsewhere
    assert tried == [["after 2 rounds", elsewhere, "stated training, 10 devices"], [], [elsewhere]]
    half = rows[0]["tried"][0]
    assert half["number"] == pytest.approx(never(Evidence(make("fig7"), until=2)).mean())


def test_training_that_diverged_shows_nothing(fig7, monkeypatch):
    curve = ("set-expansion", "V = 0.1")
    claim = Claim("learns", lambda runs: runs.final(*curve), figure="fig7", dataset="mnist")
    row = claims._row(claim, "chosen", fig7)
    assert row["number"] > 0
    read = Kept.column

    def diverged(kept, name):
        return read(kept, name) * (np.nan if name == "loss" else 1)

    monkeypatch.setattr(Kept, "column", diverged)
    for measure in (claim.read, measures.lead(curve, ("ocean", "V = 0.1")), lambda r: r.history(*curve)[1]):
        assert np.isnan(measure(fig7)).all()
    assert claims._numbers(claim, fig7)["verdict"] == NOT_TESTED
    row["tried"] = list(claims._tried(claim, row, {"other settings": fig7}))
    assert "| learns | other settings |  |  |  |  | the training diverged |" in claims.to_markdown([row, row])


def test_a_data_set_without_runs_is_one_line():
    claim = Claim("learns", lambda runs: runs.final("pma", 0), figure="fig4", dataset="cifar10")
    rows = [claims._row(claim, reading, NotRun("gone")) for reading in ("chosen", "stated")]
    table = claims.to_markdown(rows)
    assert "None of 1 claims was run: `pmafl reproduce all --dataset cifar10`." in table
    assert "None of 1 claims was run: `pmafl reproduce all --dataset cifar10 --reading stated`." in table
    assert "| learns |" not in table


def test_a_reason_stands_with_its_claim(fig7, monkeypatch):
    claim = Claim("rises", lambda runs: np.array([-1.0, -1.1]), figure="fig7", dataset="mnist")
    monkeypatch.setattr(reasons, "RULES", [("fig5, mnist", "rises", "no"), ("fig7, mnist", "ris", "because")])
    row = claims._row(claim, "chosen", fig7)
    assert (row["remark"], row["reason"]) == ("the sign is opposite", "because")
    table = claims.to_markdown([row, row])
    assert table.count("**not reproduced**: the sign is opposite [1] |") == 2
    assert table.count("[1] because") == 1


@pytest.mark.parametrize(
    ("values", "remark"),
    [
        ([-1.0, -1.1], "the sign is opposite"),
        ([-1.0, 0.5], "the interval holds 0"),
        ([-0.5, 1.0], "the interval holds 0"),
        ([-1.0], "a single seed has no interval"),
        ([0.01, -0.01], "no difference"),
        ([-0.55, -0.65, -0.01], "no gain"),
    ],
)
def test_a_remark_says_what_the_numbers_say(fig7, values, remark):
    claim = Claim("rises", lambda runs: np.array(values), figure="fig7", dataset="mnist")
    assert claims._row(claim, "chosen", fig7)["remark"] == remark


def test_what_the_paper_does_not_say_is_not_reproduced_but_holds(fig7):
    claim = Claim("rises", lambda runs: np.array([1.0, 1.1]), ours=True)
    assert claims._row(claim, "chosen", fig7)["verdict"] == "holds"


def test_every_reason_belongs_to_a_claim():
    known = statements.all_claims()
    for place, words, _ in reasons.RULES:
        fitting = [
            c for c in known for r in ("chosen", "stated") if c.place(r).startswith(place) and words in c.text
        ]
        assert fitting, (place, words)


def test_unfinished_runs_are_not_evidence(make, place, tmp_path):
    with pytest.raises(NotRun, match="no run of fig3-mnist is kept"):
        load_study("fig3", "mnist", "chosen", place, Archive(tmp_path))
    study = make("fig3")
    Archive(tmp_path, directories=True).keep("fig3-mnist", of_curve(study.jobs, "fedavg", "1 of 10 devices"))
    evidence = Evidence(load_study("fig3", "mnist", "chosen", place, Archive(tmp_path)))
    assert evidence.final("fedavg", 0).size == study.scale.seeds
    with pytest.raises(NotRun, match="no run of pma, 1 of 10 devices is done"):
        evidence.final("pma", 0)


def test_a_run_that_was_kept_without_its_allocations_is_made_again_for_them(make, tmp_path):
    wanted = allocation_jobs(make("fig5"))
    Archive(tmp_path, directories=True).keep("other", wanted)
    gone = [replace(job, directory=tmp_path / "gone" / job.directory.name) for job in wanted]
    archive = Archive(tmp_path)
    archive.forget_without_allocations(wanted)
    assert archive.unfinished(gone) == []  # the directories have what is wanted
    archive.forget_without_allocations(gone)
    assert archive.unfinished(gone) == gone != []


def test_a_part_of_a_run_has_no_allocations(make, tmp_path):
    job = allocation_jobs(make("fig5"))[0]
    Archive(tmp_path, directories=True).keep("other", [job])
    part = replace(job, directory=tmp_path / "part" / job.directory.name)
    shutil.copytree(job.directory, part.directory)
    (part.directory / "summary.json").unlink()
    archive = Archive(tmp_path, directories=True)
    archive.keep("other", [part], [part])
    assert not archive.find(part).allocations
    archive.forget_without_allocations([part])
    assert archive.unfinished([part]) == [part]
    archive = Archive(tmp_path, directories=True)
    archive.keep("other", [job], [job])
    assert archive.find(job).allocations


def test_allocations_are_kept_for_the_figure_that_asks_for_them_alone(make, tmp_path):
    job = allocation_jobs(make("fig5"))[0]
    archive = Archive(tmp_path / "asked", directories=True)
    archive.keep("fig5", [job], [job])
    beside = Archive(tmp_path / "other", beside=[tmp_path / "asked"])
    beside.keep("fig6", [job])
    assert beside.find(job).allocations
    assert not Archive(tmp_path / "other").find(job).allocations
