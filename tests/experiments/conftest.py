"""Studies at a scale of seconds, made once for all tests of this directory."""

from functools import cache
from pathlib import Path

import pytest

from pmafl import comparison
from pmafl.experiments import figure_module, study
from pmafl.experiments.archive import Archive
from pmafl.experiments.study import Scale


def run_here(jobs):
    for job in comparison.unfinished(jobs):
        comparison.run_job(job.directory, job.settings.to_toml())


def everything():
    """An archive that keeps nothing and knows every run."""
    return Archive(Path("nowhere"), directories=True)


@pytest.fixture(scope="module", autouse=True)
def few_splits():
    """What is tried for OCEAN takes more runs than all curves together. Other directories' tests need all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "SPLITS", (0.5, 0.9, 0.98))
        patch.setattr(study, "TUNING_SEEDS", range(1001, 1002))
        yield


@pytest.fixture(scope="session")
def scale(small):
    return Scale("mnist", seeds=2, wireless_seeds=2, rounds=4, overrides=small)


@pytest.fixture(scope="session")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def make(out, scale):
    @cache
    def build(name):
        figure = figure_module(name)
        found = study.prepare(
            name, figure.curves(scale), scale, out, figure.SCHEDULING, run_here, everything()
        )
        run_here(study.distinct([*found.jobs, *found.wireless]))
        return found

    return build
