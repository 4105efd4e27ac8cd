"""Round problems for the wireless side, and a small learning problem that needs no download."""

import os
import signal
import sys

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # as many tests as cores run at once; BLAS reads it too

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from pmafl.wireless.problem import RoundProblem

# A shell's & and nohup leave this ignored, and all that tests start and interrupt would ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no reason to fail. CI tries more examples than a developer waits for.
for profile, examples in (("quick", 30), ("thorough", 100)):
    settings.register_profile(
        profile, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("quick")

MNIST = {
    "bandwidth_hz": 1e7,
    "noise_w_per_hz": 10**-20.4,
    "deadline_s": 2.0,
    "upload_bits": 8_531_968.0,
    "energy_coefficient": 5e-27,
    "local_iterations": 5,
    "tradeoff": 0.001,
    "samples": 600.0,
    "cycles_per_sample": 137586.5,
    "max_frequency_hz": 1e9,
    "max_power_w": 1.0,
    "channel_gain": 1e-8,
    "queue_j": 0.3,
}
CELL = tuple(MNIST)[:7]
SHARING = "tests/experiments/"  # its studies


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Files whose tests share what takes long to make run in one process, as those of one file do."""
    from xdist.scheduler import LoadFileScheduling

    class ByWhatIsShared(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return SHARING if file.startswith(SHARING) else file

    return ByWhatIsShared(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(autouse=True)
def _same_draws():
    """A test draws the same from torch whatever ran before it in its process."""
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(0)  # that of the CPU: the others take long


@pytest.fixture(scope="session", autouse=True)
def _one_core():
    """Runs that are not told otherwise have no workers: as many tests as cores run at once already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pmafl.workers.devices.cores", lambda: 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk():
    """What a cut of the power leaves is tried on a disk of its own, or on one that is played."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def make_problem():
    """Builds a round problem of the MNIST preset; keyword arguments replace values."""

    def build(**changes):
        values = MNIST | changes
        per_device = [name for name in values if name not in CELL]
        devices = max(np.size(values[name]) for name in per_device)
        for name in per_device:
            if np.ndim(values[name]) == 0:
                values[name] = np.full(devices, values[name])
        return RoundProblem(**values)

    return build


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory):
    """240 noisy 8 x 8 images of four classes."""
    rng = np.random.default_rng(0)
    prototypes = rng.integers(0, 256, (4, 1, 8, 8))
    y = np.repeat(np.arange(4), 60)
    x = np.clip(prototypes[y] + rng.normal(0, 40, (240, 1, 8, 8)), 0, 255).astype(np.uint8)
    order = rng.permutation(240)
    path = tmp_path_factory.mktemp("data") / "tiny.npz"
    np.savez(path, x=x[order[:160]], y=y[order[:160]], x_test=x[order[160:]], y_test=y[order[160:]])
    return path


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """Ten devices of the mnist preset with images of 4 x 4, in a band that is too narrow for all of them."""
    rng = np.random.default_rng(0)
    prototypes, y = rng.integers(0, 256, (10, 1, 4, 4)), np.repeat(np.arange(10), 40)
    x = np.clip(prototypes[y] + rng.normal(0, 60, (400, 1, 4, 4)), 0, 255).astype(np.uint8)
    path = tmp_path_factory.mktemp("data") / "small.npz"
    np.savez(path, x=x[::2], y=y[::2], x_test=x[1::2], y_test=y[1::2])
    return {"data.dataset": str(path), "fleet.devices": 10, "fleet.samples": 20, "cell.bandwidth_hz": 2e5}


@pytest.fixture
def tiny(tiny_data):
    """Overrides of the mnist preset for the small problem."""
    return tiny_overrides(tiny_data)


def tiny_overrides(tiny_data):
    return {
        "data.dataset": str(tiny_data),
        "data.partition": "iid",
        "fleet.devices": 6,
        "learning.operations_per_sample": "count",
        "run.rounds": 5,
    }
