"""Callbacks: functions of the world and a round's record, called after every round, to log elsewhere."""

from pathlib import Path

from pmafl.errors import InputError
from pmafl.rounds import Callback, Record
from pmafl.world import World

SCALARS = (
    "accuracy",
    "loss",
    "global_accuracy",
    "mean_energy_j",
    "worst_energy_j",
    "mean_queue_j",
    "scheduled_samples",
)


def tensorboard(directory: Path | str) -> Callback:
    """Log the scalars of every round for TensorBoard (extra: tensorboard)."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("TensorBoard is not installed; pip install 'pmafl[tensorboard]'") from None
    writer = SummaryWriter(str(directory))

    def log(world: World, record: Record) -> None:
        for name in SCALARS:
            value = getattr(record, name)
            if value is not None:
                writer.add_scalar(name, value, record.round)
        writer.flush()

    return log
