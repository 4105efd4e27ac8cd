"""Measure along a run by training again: a run is deterministic, so its settings and schedule give it back.

At some rounds the replay stops and measures the global training loss, the gradients of all devices and the
curvature of some. What follows from these numbers is in `measurement`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pmafl.errors import InputError, NoAnswer
from pmafl.learning.method import LearningState
from pmafl.learning.task import LearningTask
from pmafl.streams import stream
from pmafl.theory.constants import Array
from pmafl.theory.curvature import Smoothness, hessian_norms, step_norms
from pmafl.theory.measurement import Measurement

Schedule = Sequence[Sequence[int]]
Report = Callable[[int, int], None]
CURVATURE_SAMPLES = 2000  # of a device, evenly over its samples: the whole graph must fit in memory


class Point(NamedTuple):
    """What is measured at one state."""

    loss: float
    global_norm_squared: float
    device_norms_squared: Array
    hessian_norms: list[Smoothness]
    step_norms: list[Smoothness]


def measure(
    task: LearningTask,
    schedule: Schedule,
    points: int,
    probed: int,
    report: Report = lambda done, rounds: None,
) -> Measurement:
    """Train `task` by `schedule` (a list of devices per round), measuring at `points` rounds.

    Gradients are of all devices, curvatures of `probed` ones drawn once. `report` is told how many
    rounds are done, of how many.
    """
    _check(task)
    devices = len(task.samples)
    rounds = np.unique(np.linspace(0, len(schedule), points).round())
    drawn = stream(task.seed, "curvature").choice(devices, min(probed, devices), replace=False)
    found = []
    for done, state in replay(task, schedule):
        if done in rounds:
            found.append(_measure_at(task, state, done, np.sort(drawn)))
        report(done, len(schedule))
    return Measurement(
        rounds=rounds,
        losses=np.array([point.loss for point in found]),
        global_norms_squared=np.array([point.global_norm_squared for point in found]),
        device_norms_squared=np.array([point.device_norms_squared for point in found]),
        hessian_norms=np.array([point.hessian_norms for point in found]),
        step_norms=np.array([point.step_norms for point in found]),
        probed_devices=np.sort(drawn).astype(np.float64),
        samples=task.samples.astype(np.float64),
        test_loss=np.array(task.evaluate(state).loss),
    )


def replay(task: LearningTask, schedule: Schedule) -> Iterator[tuple[int, LearningState]]:
    """Every state of a run, with the number of rounds behind it; the start comes first."""
    state = task.start()
    yield 0, state
    for index, scheduled in enumerate(schedule):
        state = task.advance(state, scheduled, index)
        yield index + 1, state


def _check(task: LearningTask) -> None:
    if not task.method.common:
        raise InputError("this run shares no parameters; the bound is about a shared extractor")
    if task.method.model.stochastic:
        raise InputError(
            "this run's model draws random numbers (dropout); the bound is about a loss that is not random"
        )
    if task.method.model.coupled:
        raise InputError(
            "in this run's model samples of a batch see each other (BatchNorm); the bound is about a mean of "
            "losses of single samples"
        )


def _measure_at(task: LearningTask, state: LearningState, done: int, probed: NDArray[np.int64]) -> Point:
    weights = task.samples / task.samples.sum()
    shared = task.method.common
    mean = torch.zeros(shared, dtype=torch.float64, device=task.method.device)
    losses, norms_squared = np.zeros((2, len(weights)))
    for device, weight in enumerate(weights):
        flat = _weights(task, state, device)
        losses[device], gradient = task.method.engine.gradient(flat, task.device_samples(device))
        of_extractor = gradient[:shared].double()
        norms_squared[device] = of_extractor.square().sum()
        mean += weight * of_extractor
    loss = float(weights @ losses)
    if not np.isfinite(loss):
        raise NoAnswer(f"the training loss is {loss} after {done} rounds: the run diverged")
    hessians = [_hessian_norms(task, state, device, done) for device in probed.tolist()]
    steps = [_step_norms(task, state, device) for device in probed.tolist()]
    return Point(loss, float(mean.square().sum()), norms_squared, hessians, steps)


def _hessian_norms(task: LearningTask, state: LearningState, device: int, done: int) -> Smoothness:
    model, samples = task.method.model, task.device_samples(device)
    model.load(_weights(task, state, device))
    model.train_only(shared=True, personal=True)
    stride = -(-len(samples.y) // CURVATURE_SAMPLES)
    x, y = samples.x[::stride], samples.y[::stride]
    loss = model.objective.summed(model(x), y) / len(y)
    personal = model.personal if task.method.common < model.parameters else []
    shared = model.shared if personal else [*model.shared, *model.personal]
    return hessian_norms(loss, shared, personal, stream(task.seed, "curvature", done, device))


def _step_norms(task: LearningTask, state: LearningState, device: int) -> Smoothness:
    samples, engine = task.device_samples(device), task.method.engine
    return step_norms(
        lambda weights: engine.gradient(weights, samples)[1],
        _weights(task, state, device),
        task.method.common,
        (engine.extractor_rate, engine.predictor_rate),
    )


def _weights(task: LearningTask, state: LearningState, device: int) -> Tensor:
    """A device's whole model."""
    return task.method.personal(state.server, task.method.held(state, device))
