"""The device's side: a ClientApp that answers for its profile, trains, and tests.

Training uses the simulator's own functions. The new head stays on the node; what an exception says does too.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from pmafl.flower.device import Device
from pmafl.flower.heads import Head, HeadStore
from pmafl.flower.messages import (
    Report,
    Score,
    is_sound,
    numbers_record,
    payload_record,
    read_extractor,
    read_order,
    read_task,
    reply_to,
)
from pmafl.streams import stream

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
def train(message: Message, context: Context) -> Message:
    """Train from the extractor that came and the head that is here; send the extractor, keep the head."""
    import torch

    from pmafl.learning.rounds import train_device

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
    fresh = learning.start()
    (extractor,) = read_extractor(message.content, (fresh.extractor.cpu(),))
    stored = heads.load()
    before = torch.from_numpy(stored.at_start_of(task.round)) if stored else fresh.initial_head
    with device.metered() as meter:
        payload, after = train_device(
            learning.algorithm,
            learning.engine,
            extractor.to(learning.device),
            before.to(learning.device),
            learning.device_samples(0),
            stream(device.settings.run.seed, "batches", task.round, device.number),
            learning.bits_per_parameter,
        )
    if not (is_sound(payload) and is_sound((after,))):
        raise Diverged("training gave values that are no numbers or exploded: the head stays as it was")
    if len(after):
        heads.save(Head(task.round, before.cpu().numpy(), after.cpu().numpy()))
    measured = meter.energy_j is not None
    report = Report(
        train_time_s=meter.time_s,
        compute_energy_j=meter.energy_j if meter.energy_j is not None else order.compute_energy_j,
        upload_energy_j=order.upload_energy_j,
        measured=int(measured),
    )
    return reply_to(message, report=numbers_record(report), extractor=payload_record(payload))


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Test the extractor that came with the head that is here."""
    task = read_task(message.content)
    device = Device(task, context)
    learning = device.learning_task()
    fresh = learning.start()
    (extractor,) = read_extractor(message.content, (fresh.extractor.cpu(),))
    stored = HeadStore(context, task.run, device.state_directory).load()
    heads = {0: stored.after} if stored else {}
    metrics = learning.evaluate(fresh.restored(extractor.numpy(), heads))
    if not math.isfinite(metrics.loss):
        raise Diverged("the loss is no number: the extractor that came does not fit the head that is here")
    return reply_to(message, score=numbers_record(Score(metrics.accuracy, metrics.loss)))
