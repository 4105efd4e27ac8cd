"""Studies at a scale of seconds, made once for all tests of this directory."""

from functools import cache
from pathlib import Path

import numpy as np
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


@pytest.fixture(scope="session", autouse=True)
def few_splits():
    """What is tried for OCEAN takes more runs than all curves together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "SPLITS", (0.5, 0.9, 0.98))
        patch.setattr(study, "TUNING_SEEDS", range(1001, 1002))
        yield


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """Settings of ten devices that learn from noisy images of ten classes."""
    rng = np.random.default_rng(0)
    prototypes, y = rng.integers(0, 256, (10, 1, 28, 28)), np.repeat(np.arange(10), 40)
    x = np.clip(prototypes[y] + rng.normal(0, 60, (400, 1, 28, 28)), 0, 255).astype(np.uint8)
    path = tmp_path_factory.mktemp("data") / "small.npz"
    np.savez(path, x=x[::2], y=y[::2], x_test=x[1::2], y_test=y[1::2])
    return {"data.dataset": str(path), "fleet.devices": 10, "fleet.samples": 20, "cell.bandwidth_hz": 2e6}


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
