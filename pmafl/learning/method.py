"""An algorithm with its network: all of the learning side that needs no data.

Both sides of the air have it. A device turns what it received and what it holds into an upload and what it
holds now; the server combines uploads into its next state. The two share no memory, so that the same
functions serve the simulator and real devices.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pmafl.errors import InputError
from pmafl.learning import checking
from pmafl.learning.aggregation import Aggregate, aggregate_for
from pmafl.learning.algorithms import Algorithm, find_algorithm
from pmafl.learning.engine import Engine
from pmafl.learning.form import CLASSES_OF_MEASUREMENTS, Form
from pmafl.learning.inputs import Samples
from pmafl.learning.model import Model, build_model, operations
from pmafl.learning.quantise import Payload
from pmafl.learning.uploads import Uploads
from pmafl.learning.workload import Workload, charge, uploaded_bits
from pmafl.plugins import blaming
from pmafl.settings import LearningSettings
from pmafl.streams import stream

Tensors = checking.Tensors
Arrays = Mapping[str, NDArray[Any]]
Numbers = NDArray[np.int64] | NDArray[np.float64]
Upload = dict[str, Payload]  # what goes over the air, by name
RESIDUAL = "residual-"  # before the name of an upload: what is kept of it for the next, among what is held
BUFFERS = "buffers"  # the name of the running statistics that a device keeps, among what it holds


@dataclass(frozen=True)
class LearningState:
    """What the next round needs: the server's tensors, and those of every device that has trained.

    Where devices are real, they keep their own, and `devices` stays empty.
    """

    server: Tensors
    devices: dict[int, Tensors] = field(default_factory=dict)

    def restored(self, server: Arrays, held: Mapping[int, Arrays]) -> LearningState:
        """The state with other tensors, from a checkpoint's arrays."""
        place = next((values.device for values in self.server.values()), torch.device("cpu"))

        def tensors(arrays: Arrays) -> Tensors:
            return {name: torch.from_numpy(values).to(place) for name, values in arrays.items()}

        return LearningState(tensors(server), {device: tensors(named) for device, named in held.items()})


@dataclass(frozen=True)
class Trained:
    """A device's part of a round: its upload, what it holds now, and its loss before (NaN if unknown)."""

    upload: Upload
    memory: Tensors
    loss: float


class Method:
    """One algorithm on one network.

    common: how many leading weights all personal models have in common. memory: what every device holds
    before its first round.
    """

    common: int
    memory: Tensors

    def __init__(
        self,
        learning: LearningSettings,
        input_shape: tuple[int, ...],
        classes: int,
        seed: int,
        form: Form = CLASSES_OF_MEASUREMENTS,
    ) -> None:
        self.learning = learning
        self.algorithm = find_algorithm(learning)
        self.uploads = Uploads(learning)
        self.device = find_device(learning.device)
        rng, split = stream(seed, "weights"), self.algorithm.split
        self.model = build_model(learning, input_shape, classes, rng, self.device, form, split)
        self.engine = Engine(self.model, learning)
        self._keeps = bool(len(self.model.own))
        self.form_of_data, self.kind_of_data = (input_shape, classes), form
        sizes = sizes_of(self.model, self.algorithm, learning)
        self.blamed = f"algorithm {learning.algorithm!r}"
        with blaming(self.blamed):
            server, memory = checking.pair(self.algorithm.start(self.model), "start")
            self._server, self.memory = self._own("the server", server), self._own("a device", memory)
            self._received = (self.algorithm.downloads or self.algorithm.uploads)(*sizes)
            uploaded = self.algorithm.uploads(*sizes)
            uploaded_bits(learning, self.algorithm, *sizes)  # what is wrong with its sizes is said here
            self._uploaded = {name: np.asarray(size) for name, size in uploaded.items()}
            checking.names_and_sizes(self._server, self._received, self._uploaded)
            self.memory = self._with_residuals(self._with_buffers(self.memory))
            self.common = 0 if self.algorithm.tune else self.algorithm.common(*sizes)
            self._asked_for = inspect.signature(self.algorithm.aggregate).parameters.keys()

    @cached_property
    def workload(self) -> Workload:
        """What a round costs a device; counted when it is first asked for, which devices never do."""
        sizes = sizes_of(self.model, self.algorithm, self.learning)
        return charge(
            self.learning, self.algorithm, *sizes, operations(self.learning, self.model, *self.form_of_data)
        )

    def start(self) -> LearningState:
        """The state before the first round."""
        return LearningState(self._server)

    def held(self, state: LearningState, device: int) -> Tensors:
        """What a device holds."""
        return state.devices.get(device, self.memory)

    def received(self, server: Tensors) -> Tensors:
        """What a device receives of the server's state."""
        return {name: server[name] for name in self._received}

    def upload_sizes(self, device: int) -> dict[str, int]:
        """How many values a device uploads, by name."""
        sizes = {name: int(size[device] if size.ndim else size) for name, size in self._uploaded.items()}
        return {name: size for name, size in sizes.items() if size}

    def form(self, device: int) -> Upload:
        """An upload of the right form, with nothing in it."""
        encode, rng = self.uploads.of(device).encode, np.random.default_rng(0)
        sizes = self.upload_sizes(device)
        return {name: encode(torch.zeros(size), None, rng)[0] for name, size in sizes.items()}

    def train(
        self, device: int, received: Tensors, memory: Tensors, samples: Samples, rng: np.random.Generator
    ) -> Trained:
        """A device's side of a round."""
        self.engine.first_loss = None
        with blaming(f"{self.blamed}, device {device}"):
            held = self._without_buffers(memory)
            residuals = {name: values for name, values in held.items() if name in self._residuals}
            held = {name: values for name, values in held.items() if name not in residuals}
            with checking.untouched("the server", received), checking.untouched("the device", held):
                local = self.algorithm.local(self.engine, received, held, samples, rng)
            sent, holds = checking.pair(local, "local")
            sizes = self.upload_sizes(device)
            upload = checking.uploads(sent, sizes, withheld=self._uploaded.keys() - sizes.keys())
            memory = self._with_buffers(self._own("what it holds", holds, checking.sizes_of(held)))
        loss, encoded = self.engine.first_loss, {}
        with blaming(f"upload {self.learning.upload!r}, device {device}"):
            for name, values in upload.items():
                encoded[name], residual = self._encode(device, name, values, received, residuals, rng)
                if residual is not None:
                    residuals[RESIDUAL + name] = residual
        return Trained(encoded, {**memory, **residuals}, nan if loss is None else loss)

    def _encode(
        self,
        device: int,
        name: str,
        values: Tensor,
        received: Tensors,
        residuals: Tensors,
        rng: np.random.Generator,
    ) -> tuple[Payload, Tensor | None]:
        """The message for what is uploaded under a name, and the residual after it."""
        upload = self.uploads.of(device)
        if upload.of_changes and name in self._received:
            values = values - received[name]
        return upload.encode(values, residuals.get(RESIDUAL + name), rng)

    def decoded(self, device: int, name: str, payload: Payload, server: Tensors) -> Payload:
        """What the server reads from an upload, ready to be combined; rounded values stay as they came."""
        upload = self.uploads.of(device)
        if not upload.of_changes:
            return payload
        values = upload.decode(payload, self.upload_sizes(device)[name]).to(self.device)
        return (values + server[name] if name in self._received else values,)

    def read(self, device: int, upload: Upload) -> Tensors:
        """The numbers in an upload, changes or values; `BadMessage` where no device can have sent it."""
        sizes, decode = self.upload_sizes(device), self.uploads.of(device).decode
        return {name: decode(payload, sizes[name]) for name, payload in upload.items()}

    def combining(self, state: LearningState, samples: Numbers) -> Combining:
        """The server's side of a round: takes uploads in order of their devices.

        `samples` are those of all devices, whether or not they take part.
        """
        return Combining(self, state, samples)

    def personal(self, server: Tensors, memory: Tensors) -> Tensor:
        """A device's whole model as one vector."""
        with blaming(self.blamed):
            held = {
                name: values
                for name, values in memory.items()
                if name not in self._residuals and (name != BUFFERS or not self._keeps)
            }
            made = self.algorithm.personal(self.received(server), held)
            whole = {"weights": self.model.parameters}
            made = checking.tensors("the personal model", {"weights": made}, whole)["weights"]
            return torch.cat([made, memory[BUFFERS]]) if self._keeps else made

    def tuned(self, device: int, weights: Tensor, samples: Samples, rng: np.random.Generator) -> Tensor:
        """A device's whole model as it is tested."""
        if self.algorithm.tune is None:
            return weights
        with blaming(f"{self.blamed}, device {device}"), torch.enable_grad():
            model, size = self.model, {"weights": self.model.parameters}
            model.load(weights)  # for the buffers that the device keeps
            made = self.algorithm.tune(self.engine, weights[: model.parameters], samples, rng)
            tuned = self._own("the tuned model", {"weights": made}, size)["weights"]
            return torch.cat([tuned, model.own]) if self._keeps else tuned

    def aggregate(self, server: Tensors, combined: Tensors, share: float) -> Tensors:
        """The server's next state; `share` of all devices uploaded."""
        with blaming(self.blamed):
            known = {"share": share, "trained": self._trained()}
            more = {name: value for name, value in known.items() if name in self._asked_for}
            after = self.algorithm.aggregate(server, combined, **more)
            return self._own("what aggregate returned", after, checking.sizes_of(server))

    def _trained(self) -> Tensor:
        """Which values of the model gradient steps change; the others are running statistics."""
        mask = torch.zeros(self.model.parameters, dtype=torch.bool, device=self.device)
        for place in self.model.trained:
            mask[place] = True
        return mask

    def _with_buffers(self, memory: Tensors) -> Tensors:
        """What a device holds, with the buffers that it keeps whatever the algorithm does."""
        if not self._keeps:
            return memory
        if BUFFERS in memory:
            raise InputError(f"a device holds {BUFFERS!r}, which is the name of its running statistics")
        return {**memory, BUFFERS: self.model.own.clone()}

    def _with_residuals(self, memory: Tensors) -> Tensors:
        """What a device holds, with what its uploads leave for the next."""
        names = [name for name, sizes in self._uploaded.items() if sizes.max(initial=0) > 0]
        self._residuals = {RESIDUAL + name for name in names if self.uploads.feedback}
        if taken := self._residuals & memory.keys():
            raise InputError(f"a device holds {min(taken)!r}, which is the name of what an upload leaves")
        empty = {
            RESIDUAL + name: torch.zeros(int(self._uploaded[name].max()), device=self.device)
            for name in names
        }
        return {**memory, **(empty if self._residuals else {})}

    def _without_buffers(self, memory: Tensors) -> Tensors:
        """What the algorithm put there; the buffers go back into the model."""
        if not self._keeps:
            return memory
        self.model.own.copy_(memory[BUFFERS])
        return {name: values for name, values in memory.items() if name != BUFFERS}

    def _own(self, what: str, raw: Any, sizes: dict[str, int] | None = None) -> Tensors:
        """Checked tensors, none of which the next training overwrites."""
        found = checking.tensors(what, raw, sizes)
        return {name: value.clone() if self._is_work_space(value) else value for name, value in found.items()}

    def _is_work_space(self, value: Tensor) -> bool:
        pointer = value.untyped_storage().data_ptr()
        return any(
            pointer == some.untyped_storage().data_ptr() for some in (self.model.whole, self.model.gradient)
        )


class Combining:
    """A round's uploads on their way into the next state, each name by itself."""

    def __init__(self, method: Method, state: LearningState, samples: Numbers) -> None:
        self._method, self._state = method, state
        self._samples, self._uploaded = samples, np.zeros(len(samples), bool)
        self._devices = dict(state.devices)
        self._parts: dict[str, Aggregate] = {}

    def add(self, device: int, trained: Trained, samples: int) -> None:
        if trained.memory:
            self._devices[device] = trained.memory
        self._uploaded[device] = bool(trained.upload)
        for name, payload in trained.upload.items():
            size, server = self._method.upload_sizes(device)[name], self._state.server
            payload = self._method.decoded(device, name, payload, server)
            if name not in self._parts:
                before = server[name] if name in server else torch.zeros(size, device=self._method.device)
                self._parts[name] = aggregate_for(self._method.learning, before)
            self._parts[name].add(payload, samples)

    def result(self) -> LearningState:
        """The next state; the server's part is the one before if nobody uploaded."""
        combined = {name: part.result() for name, part in self._parts.items()}
        server = self._state.server
        if combined:
            server = self._method.aggregate(server, combined, self._share())
        return LearningState(server, self._devices)

    def _share(self) -> float:
        """Who uploaded, of all, weighted as the uploads are: by samples, or each device once."""
        by_samples = self._method.learning.aggregation == "mean"
        weights = self._samples if by_samples else np.ones(len(self._samples))
        return float(weights[self._uploaded].sum() / weights.sum())


def sizes_of(model: Model, algorithm: Algorithm, learning: LearningSettings) -> tuple[int, int]:
    """Values in the extractor and in the whole model, as an algorithm is asked about them.

    One that depends on the split is refused where nothing says what is shared; others are not.
    """
    split, parameters = model.split, model.parameters
    if model.undivided and _plan(algorithm, 0, parameters) != _plan(algorithm, parameters, parameters):
        raise InputError(model.undivided)
    if model.statistics and _plan(algorithm, split, parameters)[0]:
        if learning.upload != "rounding":
            raise InputError(
                f"learning.upload = {learning.upload!r}: may make running variances negative; must be "
                "'rounding' with learning.buffers = 'shared'"
            )
        if learning.upload_bits_per_parameter == 8:
            raise InputError(
                "learning.upload_bits_per_parameter = 8: rounds small running variances to 0; must be 16 or "
                "32 with learning.buffers = 'shared'"
            )
    return split, parameters


def _plan(algorithm: Algorithm, split: int, parameters: int) -> tuple[Any, ...]:
    """All that an algorithm makes of these sizes, as lists that can be compared."""
    plans = [algorithm.uploads, algorithm.downloads or algorithm.uploads]
    named = [
        {name: np.asarray(size).tolist() for name, size in plan(split, parameters).items()} for plan in plans
    ]
    return *named, algorithm.common(split, parameters)


def find_device(name: str) -> torch.device:
    """Where training runs: "cpu", "cuda", or "auto" for what there is."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("learning.device = 'cuda': torch finds no GPU here; use 'auto' or 'cpu'")
    return torch.device(name)
