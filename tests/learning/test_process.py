"""What holds across processes: the same bits, close to the same with other threads, and little memory."""

import os
import subprocess
import sys

import numpy as np
import pytest

TRAIN = """
import sys, numpy, torch
from tests.learning.synthetic import task
assert torch.get_num_threads() == int(sys.argv[1])
models = []
for changes in ({"model": "mlp"}, {"model": "mlp", "batch_size": 16}, {"model": "cnn", "iterations": 2}):
    made = task(**changes)
    state = made.start()
    for t in range(2):
        state = made.advance(state, [t, t + 1], t)
    models += [state.server["extractor"].numpy(), *(held["head"].numpy() for held in state.devices.values())]
numpy.save(sys.argv[2], numpy.concatenate(models))
"""

MANY_DEVICES = """
import numpy as np
from pmafl.data.dataset import Dataset
from pmafl.data.partition import split
from pmafl.learning.task import LearningTask
from pmafl.settings import load

devices, rng = 10_000, np.random.default_rng(0)
x = rng.integers(0, 256, (6 * devices, 1, 28, 28), dtype=np.uint8)
y = np.arange(len(x)) % 10
scale = np.ones(1, dtype=np.float32)
names = tuple("0123456789")
data = Dataset("made up", x, y, x[:10_000], y[:10_000], 10, scale, scale, names, "")
task = LearningTask(load("mnist").learning, data, split(y, y[:10_000], devices, rng), seed=1)
state = task.advance(task.start(), range(0, devices, 100), 0)
metrics = task.evaluate(state)
assert len(state.devices) == 100 and len(metrics.device_accuracy) == devices
# Not getrusage, whose peak counts what the process that started this one held.
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024**2)
"""


def run(code, *arguments, **environment):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.heavy
def test_another_process_gives_the_same_bits_and_more_threads_the_same_but_for_last_digits(tmp_path):
    trained = {}
    for threads, repeat in ((1, 0), (1, 1), (2, 0), (2, 1)):
        path = tmp_path / f"{threads}-{repeat}.npy"
        run(TRAIN, threads, path, OMP_NUM_THREADS=str(threads))
        trained[threads, repeat] = np.load(path)
    np.testing.assert_array_equal(trained[1, 0], trained[1, 1])
    np.testing.assert_array_equal(trained[2, 0], trained[2, 1])
    difference = np.linalg.norm(trained[1, 0] - trained[2, 0]) / np.linalg.norm(trained[1, 0])
    assert difference < 1e-4


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux", reason="measures memory as Linux reports it")
def test_a_round_of_ten_thousand_devices_takes_less_than_one_and_a_half_gigabytes():
    assert float(run(MANY_DEVICES, OMP_NUM_THREADS="1")) < 1.5


def test_waiting_threads_sleep_unless_the_user_says_otherwise():
    code = "import os, pmafl.learning; print(os.environ['OMP_WAIT_POLICY'])"
    environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    for given, expected in (({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")):
        done = subprocess.run([sys.executable, "-c", code], env=environment | given, capture_output=True)
        assert done.stdout.decode().strip() == expected
