"""The device's side: a ClientApp that answers for its profile, trains, and tests.

Training uses the simulator's own functions, and one thread, as it does. The new head stays on the node; what
an exception says does too.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from pmafl.flower.device import Device
from pmafl.flower.heads import Arrays, Head, HeadStore
from pmafl.flower.messages import (
    NO_LOSS,
    Report,
    Score,
    is_sound,
    numbers_record,
    read_order,
    read_task,
    read_tensors,
    reply_to,
    weights_record,
)
from pmafl.learning import threads
from pmafl.streams import stream

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger("flwr.pmafl")


class DeviceFailed(Exception):
    """All that the server hears of an exception on a device."""


class Diverged(Exception):
    """Training or testing led to values that are no numbers any more, or exploded."""


def private_errors(
    message: Message, context: Context, call: Callable[[Message, Context], Message]
) -> Message:
    """Log an exception here and send its kind only: its text may quote samples or paths."""
    try:
        return call(message, context)
    except Exception as error:
        logger.exception("%s failed", message.metadata.message_type)
        raise DeviceFailed(f"{type(error).__name__}; see the device's log") from None


app = ClientApp(mods=[private_errors])


@app.query("profile")
def profile(message: Message, context: Context) -> Message:
    """Who this device is, what it can do, and its channel in this round."""
    device = Device(read_task(message.content), context)
    return reply_to(message, profile=numbers_record(device.profile()))


@app.train()
@threads()
def train(message: Message, context: Context) -> Message:
    """Train from what came and what is held here; send what the algorithm uploads, keep the rest."""
    task, order = read_task(message.content), read_order(message.content)
    device = Device(task, context)
    heads = HeadStore(context, task.run, device.state_directory)
    logger.info(
        "round %d: training at %.3g Hz, uploading with %.1f%% of the band at %.3g W, all within %g s",
        task.round + 1,
        order.frequency_hz,
        100 * order.bandwidth_share,
        order.power_w,
        order.deadline_s,
    )
    learning = device.learning_task()
    method = learning.method
    received = read_tensors(message.content, method.received(method.start().server))
    stored = heads.load()
    before = _tensors(stored.at_start_of(task.round), method.device) if stored else method.memory
    with device.metered() as meter:
        trained = method.train(
            device.number,
            received,
            before,
            learning.device_samples(0),
            stream(device.settings.run.seed, "batches", task.round, device.number),
        )
    sent = method.read(device.number, trained.upload)
    held = {f"held {name}": values for name, values in trained.memory.items()}
    if not is_sound({name: (values,) for name, values in {**sent, **held}.items()}):
        raise Diverged("training gave values that are no numbers or exploded: all stays as it was")
    if trained.memory:
        heads.save(Head(task.round, _arrays(before), _arrays(trained.memory)))
    measured = meter.energy_j is not None
    report = Report(
        train_time_s=meter.time_s,
        compute_energy_j=meter.energy_j if meter.energy_j is not None else order.compute_energy_j,
        upload_energy_j=order.upload_energy_j,
        measured=int(measured),
        train_loss=trained.loss if math.isfinite(trained.loss) else NO_LOSS,
    )
    return reply_to(message, report=numbers_record(report), weights=weights_record(trained.upload))


@app.evaluate()
@threads()
def evaluate(message: Message, context: Context) -> Message:
    """Test the model that follows from what came and what is held here."""
    from pmafl.learning.method import LearningState

    task = read_task(message.content)
    device = Device(task, context)
    learning = device.learning_task()
    method = learning.method
    received = read_tensors(message.content, method.received(method.start().server))
    stored = HeadStore(context, task.run, device.state_directory).load()
    held = {0: _tensors(stored.after, method.device)} if stored else {}
    metrics = learning.evaluate(LearningState(received, held))
    if not math.isfinite(metrics.loss):
        raise Diverged("the loss is no number: what came does not fit what is held here")
    return reply_to(message, score=numbers_record(Score(float(metrics.device_score[0]), metrics.loss)))


def _tensors(arrays: Arrays, place: Any) -> dict[str, Tensor]:
    import torch

    return {name: torch.from_numpy(array).to(place) for name, array in arrays.items()}


def _arrays(tensors: Mapping[str, Tensor]) -> Arrays:
    return {name: values.cpu().numpy() for name, values in tensors.items()}
