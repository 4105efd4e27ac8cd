"""The studies behind the figures: their curves, their runs, and the numbers read from these."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pmafl import comparison, runs
from pmafl.errors import InputError
from pmafl.experiments import FIGURES, drawing, figure_module, report, study
from pmafl.experiments.policies import OCEAN_SPLIT
from pmafl.experiments.study import Scale
from tests.experiments.conftest import everything, run_here

NOWHERE = Path("nowhere")


def known(jobs):
    return [everything().find(job) for job in jobs]


@pytest.fixture(scope="module")
def fig7(make):
    return make("fig7")


@pytest.mark.parametrize("name", FIGURES)
def test_every_curve_of_a_figure_is_another_one(name):
    for dataset in figure_module(name).DATASETS:
        curves = figure_module(name).curves(Scale(dataset))
        assert len({(curve.method, curve.value) for curve in curves}) == len(curves)
        for curve in curves:
            comparison.grid(dataset, Scale(dataset).settings(curve), {}, [1], NOWHERE)  # settings are valid


def test_figures_show_what_the_paper_varies():
    def values(name, dataset):
        return list(dict.fromkeys(curve.value for curve in figure_module(name).curves(Scale(dataset))))

    assert values("fig2", "mnist") == [f"n = {n}" for n in range(5)]
    assert values("fig2", "cifar10") == [f"n = {n}" for n in range(6)]
    assert values("fig3", "mnist") == ["10 of 100 devices", "50 of 100 devices"]
    assert values("fig5", "mnist") == ["0.06 J", "0.1 J", "0.14 J"]
    assert values("fig5", "cifar10") == ["2 J", "3 J", "4 J"]
    assert values("fig6", "mnist") == ["1.5 s", "2 s", "2.5 s"]
    assert values("fig6", "cifar10") == ["12 s", "14 s", "16 s"]
    assert values("fig7", "cifar10") == ["V = 0.001", "V = 0.01", "V = 0.1"]


def test_the_stated_reading_is_the_papers_training():
    curve = figure_module("fig4").curves(Scale("cifar10"))[0]
    (job,) = comparison.grid("cifar10", Scale("cifar10", "stated").settings(curve), {}, [1], NOWHERE)
    learning = job.settings.learning
    assert (learning.batch_size, learning.momentum, learning.extractor_rate) == (0, 0.9, 0.05)


def test_ocean_gets_the_fixed_split_that_schedules_most(fig7, small, out):
    (curve,) = (c for c in fig7.curves if (c.method, c.value) == (OCEAN_SPLIT, "V = 0.01"))
    chosen = curve.settings["policy.options"]["compute_fraction"]

    def scheduled(split):
        settings = {**small, "policy.name": "ocean", "policy.tradeoff": 0.01, "run.rounds": 4}
        settings |= {"policy.options": {"compute_fraction": split}, "run.learning": "none"}
        jobs = comparison.grid("mnist", settings, {}, study.TUNING_SEEDS, out / "check")
        run_here(jobs)
        return study.summaries(known(jobs), "scheduled_samples_per_round").mean()

    assert scheduled(chosen) == pytest.approx(max(map(scheduled, study.SPLITS)))


def test_a_run_behind_several_curves_is_made_once(fig7, scale):
    rs_wel = [job for job in fig7.jobs if dict(job.variation)["method"] == "rs-wel"]
    assert len(rs_wel) == 3 * scale.seeds
    assert len(study.distinct(rs_wel)) == scale.seeds
    assert len([c for c in fig7.curves if c.method == "rs-wel" and c.drawn]) == 1


def test_learning_sees_nothing_of_the_cell_but_who_is_scheduled(small, out):
    deadlines = {"cell.deadline_s": [2.0, 2.5]}  # with so much band RS-WEL schedules every device
    settings = {**small, "cell.bandwidth_hz": 2e6, "policy.name": "rs-wel", "run.rounds": 4}
    short, long = comparison.grid("mnist", settings, deadlines, [1], out / "cells")
    for job in (short, long):
        comparison.run_job(job.directory, job.settings.to_toml())
    one, other = (runs.read_records(job.directory) for job in (short, long))
    assert [r["scheduled"] for r in one] == [r["scheduled"] for r in other]
    assert [r["loss"] for r in one] == [r["loss"] for r in other]
    assert [r["upload_energy_j"] for r in one] != [r["upload_energy_j"] for r in other]


def test_an_interrupted_study_has_pairs_to_compare(small):
    scale = Scale("mnist", seeds=3, wireless_seeds=2, rounds=2, overrides=small)
    curves = figure_module("fig3").curves(scale)
    fig3 = study.prepare("fig3", curves, scale, NOWHERE, False, lambda jobs: None, everything())
    seeds = [job.seed for job in study.to_run(fig3)]
    assert seeds == [seed for seed in (1, 2, 3) for _ in curves]
    assert [job.seed for job in study.to_run(fig3, ["pma, *"])] == [1, 1, 2, 2, 3, 3]


@pytest.mark.heavy
def test_runs_that_schedule_the_same_devices_train_once(make, scale):
    fig6 = make("fig6")

    def schedules(jobs):
        first = [job for job in jobs if job.seed <= scale.seeds]
        return [[r["scheduled"] for r in runs.read_records(job.directory)] for job in first]

    assert schedules(fig6.jobs) == schedules(fig6.wireless)
    kinds = {(job.seed, str(known)) for job, known in zip(fig6.jobs, schedules(fig6.jobs), strict=True)}
    assert len(study.distinct(fig6.jobs)) == len(kinds) < len(fig6.jobs)


def test_a_smaller_fleet_trains_with_as_many_samples_and_as_much_band_each(small, out):
    scale = Scale("mnist", seeds=1, wireless_seeds=1, rounds=2, devices=5, overrides=small)
    figure = figure_module("fig5")
    found = study.prepare("fig5", figure.curves(scale), scale, out, True, run_here, everything())
    for job, count in [(found.jobs[0], 5), (found.wireless[0], 10)]:
        fleet, cell = job.settings.fleet, job.settings.cell
        assert (fleet.devices, fleet.samples, cell.bandwidth_hz) == (count, 20, 2e4 * count)
    assert "training with 5 devices" in report.title(found)


def test_the_samples_of_a_smaller_fleet_are_those_of_the_preset():
    assert Scale("cifar10", devices=20).fewer_devices == {
        "fleet.devices": 20,
        "fleet.samples": 500,
        "cell.bandwidth_hz": 2e6,
    }
    assert Scale("cifar10", devices=100).fewer_devices == {}  # the same runs as without


def test_more_devices_than_there_are_are_refused():
    scale = Scale("mnist", devices=101)
    with pytest.raises(InputError, match="--devices 101: the fleet has 100"):
        study.prepare(
            "fig2", figure_module("fig2").curves(scale), scale, NOWHERE, False, run_here, everything()
        )


def test_an_interrupted_study_goes_on_where_it_was(small, tmp_path):
    scale = Scale("mnist", seeds=1, wireless_seeds=1, rounds=2, overrides=small)
    made = []

    def until(limit):
        def run(jobs):
            for job in comparison.unfinished(jobs):
                if len(made) == limit:
                    raise KeyboardInterrupt
                comparison.run_job(job.directory, job.settings.to_toml())
                made.append(job.directory)

        return run

    figure = figure_module("fig5")
    for limit in (7, 1000):
        try:
            found = study.prepare(
                "fig5", figure.curves(scale), scale, tmp_path, True, until(limit), everything()
            )
            until(limit)(study.distinct([*found.jobs, *found.wireless]))
        except KeyboardInterrupt:
            assert len(made) == 7
    assert len(made) == len(set(made)) == len(list((tmp_path / "runs").iterdir()))


def test_wireless_runs_schedule_as_those_that_learn_do(fig7):
    for curve in fig7.curves:
        learned, alone = (
            study.summaries(kept[:2], "scheduled_samples_per_round")
            for kept in (fig7.learned(curve), fig7.alone(curve))
        )
        assert np.array_equal(learned, alone)


def test_what_a_run_ends_with_is_the_mean_of_its_last_rounds(small, out):
    (job,) = comparison.grid("mnist", {**small, "run.rounds": 20, "run.evaluate_every": 2}, {}, [1], out)
    run_here([job])
    last = [r["accuracy"] for r in runs.read_records(job.directory)][-4:]
    measured = [value for value in last if value is not None]
    assert len(measured) == 2
    assert study.final(known([job]), "accuracy") == pytest.approx(np.mean(measured))


@pytest.mark.parametrize("name", ["fig2", "fig3", "fig5", "fig7"])
def test_a_figure_leaves_pictures_numbers_and_what_made_it(name, make, small, tmp_path):
    found = make(name)
    picture = report.write(found, figure_module(name), tmp_path, {"command": "pmafl reproduce"})
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    known = json.loads(picture.with_suffix(".json").read_text())
    assert (known["figure"], known["rounds"], known["overrides"]) == (name, 4, small)
    rows = list(csv.DictReader(picture.with_suffix(".csv").open()))
    assert {(row["method"], row["value"]) for row in rows} == {(c.method, c.value) for c in found.curves}
    first = found.curves[0]
    rounds, values = study.history(found.learned(first), "accuracy")
    mine = [row for row in rows if (row["method"], row["value"]) == (first.method, first.value)]
    assert [int(row["round"]) for row in mine] == rounds.tolist()
    assert [float(row["accuracy_mean"]) for row in mine] == pytest.approx(values.mean(axis=0), rel=1e-5)
    assert (tmp_path / f"{name}-mnist-wireless.csv").exists() == figure_module(name).SCHEDULING


@pytest.mark.parametrize("methods", [["dual"], ["ocean", "dual"]])
def test_a_part_of_a_figure_is_drawn_in_the_colours_of_the_whole(fig7, methods):
    some = tuple(job for job in fig7.jobs if job.variation[0][1] in methods)
    part = replace(fig7, jobs=some)
    whole, drawing = (figure_module("fig7").draw(one) for one in (fig7, part))
    names = {f"{name} (ours)" if name == "dual" else name for name in methods}
    colours = [
        {line.get_label(): line.get_color() for line in one.legends[0].get_lines()}
        for one in (whole, drawing)
    ]
    assert {name: colours[1][name] for name in names} == {name: colours[0][name] for name in names}
    assert [len(axes.lines) > 0 for axes in drawing.axes] == ["ocean" in methods, "dual" in methods, False]
    for axes in drawing.axes[:2]:
        assert {line.get_color() for line in axes.lines} <= {colours[0][name] for name in names}


def test_a_method_that_has_bars_alone_is_in_the_legend(fig7):
    learned = tuple(job for job in fig7.jobs if ("method", "rs-wel") not in job.variation)
    picture = figure_module("fig7").draw(replace(fig7, jobs=learned))
    assert "rs-wel" in [text.get_text() for text in picture.legends[0].get_texts()]


def test_without_a_run_that_learned_samples_and_energy_are_drawn(fig7):
    picture = figure_module("fig7").draw(replace(fig7, jobs=()))
    assert [axes.get_ylabel() for axes in picture.axes] == list(drawing.WIRELESS_LABELS.values())
    assert all(len(axes.patches) == len(fig7.curves) for axes in picture.axes)


@pytest.mark.parametrize("key", ["fleet.budget_j", "run.rounds", "policy.options.compute_fraction"])
def test_what_the_figure_sets_cannot_be_overridden(key, tmp_path):
    scale = Scale("mnist", overrides={key: 1})
    with pytest.raises(InputError, match=f"--set {key}: the figure sets it"):
        study.prepare(
            "fig5", figure_module("fig5").curves(scale), scale, tmp_path, True, run_here, everything()
        )


def test_readings_and_precisions_share_the_runs_without_learning(tmp_path):
    curve = next(c for c in figure_module("fig5").curves(Scale("cifar10")) if c.method == "dual")
    names = {
        study._jobs(curve, scale, study.WIRELESS_ONLY, [1], tmp_path)[0].directory
        for reading in study.READINGS
        for scale in (
            Scale("cifar10", reading),
            Scale("cifar10", reading, overrides={"learning.precision": "bf16"}),
        )
    }
    assert len(names) == 1


@pytest.mark.parametrize(
    ("done", "said"),
    [((), "10 seeds"), ({0}, "without learning"), ({1}, "1 seed"), ({3, 1}, "1 to 3 seeds")],
)
def test_a_title_says_how_many_seeds_are_done(done, said):
    assert report.how_much(Scale("mnist", seeds=10), done) == f"100 rounds, {said}"


def test_a_short_run_is_evaluated_at_its_end():
    curve = figure_module("fig4").curves(Scale("cifar10"))[0]
    assert Scale("cifar10", rounds=3).settings(curve)["run.evaluate_every"] == 3


def test_a_figure_is_not_replaced_by_a_smaller_one(tmp_path):
    (tmp_path / "fig5-mnist.json").write_text(json.dumps({"rounds": 100, "seeds": 3}))
    report.check_place("fig5", Scale("mnist", seeds=3, rounds=100), tmp_path)
    with pytest.raises(InputError, match="made with 100 rounds, more than now"):
        report.check_place("fig5", Scale("mnist", rounds=5), tmp_path)


def test_a_figure_is_not_replaced_by_one_of_other_settings(tmp_path):
    known = {"rounds": 100, "seeds": 3, "overrides": {"learning.precision": "bf16"}}
    (tmp_path / "fig5-mnist.json").write_text(json.dumps(known))
    report.check_place("fig5", Scale("mnist", overrides=known["overrides"]), tmp_path)
    with pytest.raises(InputError, match=r"made with learning\.precision = bf16, unlike now; give another"):
        report.check_place("fig5", Scale("mnist"), tmp_path)
