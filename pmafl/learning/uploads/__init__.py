"""How devices upload: one way per file, found by name (``learning.upload``) or at ``package.module:name``.

A new one is a function from the learning settings and its options to an `Upload`. An option may be a list
with one value per device: uploads, and with them the bits that are charged, then differ by device.
"""

from collections.abc import Sequence
from typing import Any

from pmafl.errors import InputError
from pmafl.learning.uploads.base import BadMessage, Maker, Upload, compressed
from pmafl.learning.uploads.qsgd import qsgd
from pmafl.learning.uploads.random_k import random_k
from pmafl.learning.uploads.rounding import rounding
from pmafl.learning.uploads.sign import sign
from pmafl.learning.uploads.top_k import top_k
from pmafl.registry import Registry, make
from pmafl.settings import LearningSettings

__all__ = ["UPLOADS", "BadMessage", "Upload", "Uploads", "compressed"]

UPLOADS: Registry[Maker] = Registry(
    "upload",
    "learning.upload",
    {"rounding": rounding, "qsgd": qsgd, "top-k": top_k, "random-k": random_k, "sign": sign},
)


class Uploads:
    """The uploads of all devices under some settings. devices: how many differ, or 0."""

    def __init__(self, learning: LearningSettings) -> None:
        name, self._options = learning.upload, learning.upload_options
        self._learning, self._maker, self._what = learning, UPLOADS.find(name), f"upload {name!r}"
        lengths = {len(value) for value in self._options.values() if isinstance(value, list | tuple)}
        if len(lengths) > 1 or 0 in lengths:
            given = " and of ".join(map(str, sorted(lengths)))
            raise InputError(f"learning.upload_options: has lists of {given} values; must be one per device")
        self.devices = lengths.pop() if lengths else 0
        self._made: dict[tuple[Any, ...], Upload] = {}
        for device in range(max(self.devices, 1)):  # what is wrong is said before a run
            self.of(device)
        if len({upload.feedback for upload in self._made.values()}) > 1:
            raise InputError("learning.upload_options: feedback must be the same for all devices")

    def of(self, device: int) -> Upload:
        """A device's upload."""
        if self.devices and device >= self.devices:
            raise InputError(
                f"learning.upload_options: has lists of {self.devices} values; device {device} has none"
            )
        options = {
            name: value[device] if isinstance(value, list | tuple) else value
            for name, value in self._options.items()
        }
        key = tuple(options.values())
        if key not in self._made:
            made = make(self._maker, self._what, (self._learning,), options)
            if not isinstance(made, Upload):
                raise InputError(f"{self._what}: must return an Upload, but returned {type(made).__name__}")
            self._made[key] = made
        return self._made[key]

    @property
    def feedback(self) -> bool:
        """Whether devices keep residuals."""
        return self.of(0).feedback

    def bits(self, sizes: int | Sequence[int]) -> int | list[int]:
        """Bits of a vector of this size, or of these sizes by device; 0 for nothing."""
        if isinstance(sizes, int):
            if not self.devices:
                return self.of(0).bits(sizes) if sizes else 0
            sizes = [sizes] * self.devices
        return [self.of(device).bits(size) if size else 0 for device, size in enumerate(sizes)]
