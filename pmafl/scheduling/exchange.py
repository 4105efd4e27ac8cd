"""Round problems and decisions as JSON, for scripts and other systems.

The fields are those of `RoundProblem`; what it can do without may be left out. Devices may have names of the
caller's own, ``"id"``, and everything that speaks of a device then does so by its name. All that is wrong
with a problem is said at once. `schema` has the same as a JSON Schema.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, replace
from operator import itemgetter
from typing import Any

import numpy as np

from pmafl.errors import InputError
from pmafl.scheduling import queues
from pmafl.scheduling.decision import Decision
from pmafl.scheduling.policy import Outcome, Outlook
from pmafl.scheduling.reasons import left_out
from pmafl.wireless import CELL_FIELDS, COMMON_FIELDS, Array, Mask, RoundProblem, wrong_values
from pmafl.wireless.channels import exponential_quantile, middles

Name = str | int  # what a caller calls a device, or a problem

MOST_FAULTS = 20  # that are listed
LONGEST_NAME = 200  # characters
LARGEST_NUMBER = 2**53  # as a name: every JSON reader keeps it exactly
FADING_LEVELS = 32  # of a law that is given by its name
LAWS: dict[str, Callable[[Array], Array]] = {
    "none": np.ones_like,
    "exponential": exponential_quantile,
}  # of the fading, by their quantiles
# What a problem may have beside its fields.
EXTRAS = ("id", "scheduled", "outlook", "outcome")


def _default(entry: Any) -> Any:
    return entry.default if entry.default_factory is MISSING else entry.default_factory().item()


_OPTIONAL = {entry.name: _default(entry) for entry in fields(RoundProblem) if _default(entry) is not MISSING}
DEVICE_FIELDS = tuple(entry.name for entry in fields(RoundProblem) if entry.name not in CELL_FIELDS)
NEEDED_FROM_CELL = tuple(name for name in CELL_FIELDS if name not in _OPTIONAL)
NEEDED_FROM_DEVICE = tuple(name for name in DEVICE_FIELDS if name not in _OPTIONAL)
OPTIONAL_OF_DEVICE = tuple(name for name in DEVICE_FIELDS if name in _OPTIONAL)
# What is not known, or not limited, may be null: JSON has neither NaN nor infinity.
MAY_BE_NULL = tuple(name for name in OPTIONAL_OF_DEVICE if not np.isfinite(_OPTIONAL[name]))


class BadProblem(InputError):
    """A problem that cannot be read: one line, and each of its faults by itself."""

    def __init__(self, faults: Sequence[str], problem_name: Name | None = None) -> None:
        self.faults, self.problem_name = list(faults), problem_name
        shown = self.faults[:MOST_FAULTS]
        if len(self.faults) > MOST_FAULTS:
            shown.append(f"and {len(self.faults) - MOST_FAULTS} more")
        start = f"the problem has {len(self.faults)} faults: " if len(self.faults) > 1 else ""
        super().__init__(start + "; ".join(shown))


@dataclass(frozen=True, eq=False)
class Question:
    """A problem as it was asked.

    Attributes:
        problem: the round.
        name: what the caller calls it, to be found in the answer.
        devices: what the caller calls the devices; None where they have numbers only.
        fixed: the set that the caller wants to have allocated, if any.
        rounds: how many rounds there will be; 0 where the caller does not say.
        fading: equally likely factors of the channels in the rounds to come, where the caller knows them.
        mean_gain: the mean channel power gain of each device, where the caller knows it.
        failed: who did not deliver in the round before.
        energy_j: what each device spent in the round before, where that is not what was planned.
    """

    problem: RoundProblem
    name: Name | None = None
    devices: list[Name] | None = None
    fixed: Mask | None = None
    rounds: int = 0
    fading: Array | None = None
    mean_gain: Array | None = None
    failed: Mask | None = None
    energy_j: Array | None = None

    @property
    def outlook(self) -> Outlook:
        """What is known before the first round."""
        gain = self.problem.channel_gain if self.mean_gain is None else self.mean_gain
        fading = np.ones(1) if self.fading is None else self.fading
        return Outlook(replace(self.problem, channel_gain=gain), fading, self.rounds)

    def outcome(self, decision: Decision) -> Outcome:
        """What came of the round before, which was decided so."""
        delivered = decision.scheduled if self.failed is None else decision.scheduled & ~self.failed
        energy_j = decision.energy_j if self.energy_j is None else self.energy_j
        loss = np.where(delivered, self.problem.last_loss, np.nan)
        return Outcome(delivered, energy_j, loss)

    def called(self, device: int) -> Name:
        """What the caller calls a device."""
        return device if self.devices is None else self.devices[device]


def read_question(text: str | bytes, round_index: int = 0) -> Question:
    """The question in a JSON text; `BadProblem` with all that is wrong.

    `round_index` is the number of the round where the problem has none.
    """
    raw = _parsed(text)
    if not isinstance(raw, dict):
        raise BadProblem([f"the problem must be a JSON object with {', '.join(NEEDED_FROM_CELL)}, devices"])
    reader = _Reader({"round": round_index} | raw)
    question = reader.question()
    if reader.faults or question is None:
        name = raw.get("id")
        raise BadProblem(reader.faults, name if _is_name(name) else None)
    return question


def answer(question: Question, decision: Decision, reasons: bool = True) -> dict[str, Any]:
    """The decision as a JSON object; lists have one entry per device, 0 where it is not scheduled.

    `scheduled` and `left_out` name devices, and so does `dropped`, which is there only if somebody was
    dropped. `queue_after_j` is null where a device's budget is not known.
    """
    problem = question.problem
    found: dict[str, Any] = {}
    if question.name is not None:
        found["id"] = question.name
    for entry in fields(decision):
        value = getattr(decision, entry.name)
        found[entry.name] = value.tolist() if isinstance(value, np.ndarray) else value
    found["scheduled"] = [question.called(device) for device in decision.scheduled_devices]
    del found["dropped"]
    if not decision.awake_energy_j.any():
        del found["awake_energy_j"]
    if decision.dropped_devices:
        found["dropped"] = [question.called(device) for device in decision.dropped_devices]
    known = np.where(np.isnan(problem.budget_j), 0.0, problem.budget_j)
    before = queues.QueueState(problem.queue_j, np.zeros(problem.devices))
    after = queues.advance(before, decision.energy_j, known).queue_j.tolist()
    for device in np.flatnonzero(np.isnan(problem.budget_j)):
        after[device] = None
    found["queue_after_j"] = after
    if question.devices is not None:
        found["devices"] = question.devices
    if reasons:
        found["left_out"] = [
            {"device": question.called(device), "code": reason.code, "reason": reason}
            for device, reason in sorted(left_out(problem, decision).items())
        ]
    return found


def write(found: Mapping[str, Any]) -> str:
    """One line of JSON."""
    return json.dumps(found, allow_nan=False)


def _parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadProblem([f"the problem is not JSON: {str(error).splitlines()[0]}"]) from None
    except ValueError:  # Python's limit on the digits of whole numbers
        raise BadProblem(
            ["the problem has a whole number of thousands of digits; 1e15 is the largest"]
        ) from None


def _is_name(raw: Any) -> bool:
    if _is_whole(raw):
        return bool(abs(raw) <= LARGEST_NUMBER)
    return isinstance(raw, str) and 0 < len(raw) <= LONGEST_NAME


def _is_whole(raw: Any) -> bool:
    """Whether JSON would call it an integer: 5.0 is one too."""
    return type(raw) is int or (isinstance(raw, float) and raw.is_integer())


class _Reader:
    """Reads a problem and notes its faults; what cannot be read is passed over, to find the others too."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw, self.faults = raw, list[str]()
        self.common: dict[str, Any] = {}  # what stands for every device that has none of its own
        self.names: list[Name] | None = None
        self.count = 0
        self.given: set[str] = set()  # keys that some device has

    def question(self) -> Question | None:
        """The question, which means nothing if there are faults."""
        raw = self.raw
        optional = [name for name in (*_OPTIONAL, *EXTRAS) if name not in NEEDED_FROM_DEVICE]
        self._keys(raw, "the problem", (*NEEDED_FROM_CELL, "devices"), (*COMMON_FIELDS, *optional))
        given = {name: raw[name] for name in CELL_FIELDS if name in raw}
        cell: dict[str, Any] = {name: self._cell(name, value) for name, value in given.items()}
        self.common = {name: self._common(name, raw[name]) for name in COMMON_FIELDS if name in raw}
        devices = raw.get("devices", [])
        if "devices" in raw and (not isinstance(devices, list) or not devices):
            self.faults.append("devices must be a list of at least one device")
            return None
        if not self._devices(devices):
            self._ranges(cell, {})
            return None
        columns: dict[str, Any] = {name: self._column(devices, name) for name in DEVICE_FIELDS}
        more = {
            "name": self._name(raw["id"], "id") if "id" in raw else None,
            "devices": self.names,
            "fixed": self._set(raw["scheduled"], "scheduled") if "scheduled" in raw else None,
            **self._outlook(raw.get("outlook")),
            **self._outcome(raw.get("outcome")),
        }
        if not self.faults:
            with suppress(InputError):  # it names the first number that is out of its range; here all are
                return Question(RoundProblem(**cell, **columns), **more)
        self._ranges(cell, columns)
        return None

    def _keys(self, raw: Any, where: str, required: Collection[str], optional: Collection[str]) -> bool:
        if not isinstance(raw, dict):
            self.faults.append(f"{where} must be a JSON object with {', '.join(required)}")
            return False
        if missing := [key for key in required if key not in raw]:
            self.faults.append(f"{where} has no {', '.join(missing)}")
        allowed = dict.fromkeys((*required, *optional))
        for key in raw:
            if key not in allowed:
                self.faults.append(f"{where} has {key!r:.60}; its keys are {', '.join(allowed)}")
        return True

    def _devices(self, devices: list[Any]) -> bool:
        """Checks keys and names of all devices; False if some are not even objects."""
        self.count = len(devices)
        required = [name for name in NEEDED_FROM_DEVICE if name not in self.raw]
        optional = (*COMMON_FIELDS, *OPTIONAL_OF_DEVICE, "id")
        good, objects = {*required}, True
        self.given = {*required}
        for index, device in enumerate(devices):
            if type(device) is not dict or device.keys() != good:  # the quick way for a million alike
                before = len(self.faults)
                objects &= self._keys(device, f"devices[{index}]", required, optional)
                good = {*device} if len(self.faults) == before else good
                self.given.update(device if type(device) is dict else ())
        if objects and any("id" in device for device in devices):
            names = [device.get("id") for device in devices]
            checked = [self._name(name, f"devices[{index}].id") for index, name in enumerate(names)]
            if None not in checked:
                self.names = [name for name in checked if name is not None]
                if len(set(self.names)) < len(self.names):
                    ((twice, _),) = Counter(self.names).most_common(1)
                    self.faults.append(f"two devices have the id {json.dumps(twice):.60}; ids must differ")
        return objects

    def _name(self, raw: Any, where: str) -> Name | None:
        if _is_name(raw):
            return raw if isinstance(raw, str) else int(raw)
        self.faults.append(
            f"{where} is {json.dumps(raw):.40}; it must be a whole number or 1 to {LONGEST_NAME} characters"
        )
        return None

    def _called(self, device: int) -> str:
        return f"device {device}" if self.names is None else f"device {json.dumps(self.names[device])}"

    def _cell(self, name: str, raw: Any) -> float:
        value = self._number(raw, name)
        return 1.0 if value is None else value

    def _ranges(self, cell: dict[str, float], columns: dict[str, Array | Mask]) -> None:
        """Notes every number that is out of its range."""
        for name, value in cell.items():
            self.faults += [f"{name} {fault}" for fault in wrong_values(name, np.array([value])).values()]
        for name, column in columns.items():
            if name == "available":
                continue
            for device, fault in wrong_values(name, column.astype(np.float64)).items():
                self.faults.append(f"{name} of {self._called(device)} {fault}")

    def _common(self, name: str, raw: Any) -> Any:
        if name == "available":
            return bool(self._flags([raw], name)[0])
        if raw is None and name in MAY_BE_NULL:
            return _OPTIONAL[name]
        before, value = len(self.faults), self._cell(name, raw)
        self._ranges({name: value}, {})
        return value if len(self.faults) == before else 1.0  # what has been said need not be for every device

    def _column(self, devices: list[dict[str, Any]], name: str) -> Array | Mask:
        default = self.common.get(name, _OPTIONAL.get(name, MISSING))
        if name not in self.given and default is not MISSING:
            return np.full(len(devices), default)
        try:
            values = list(map(itemgetter(name), devices))
        except KeyError:
            values = [device.get(name, default) for device in devices]
        if name == "available":
            return self._flags(values, "devices[{}].available")
        if set(map(type, values)) <= {float, int}:
            with suppress(OverflowError):
                return np.array(values, dtype=np.float64)
        column = np.ones(len(values))
        for index, value in enumerate(values):
            if value is MISSING:  # that has been said
                continue
            if value is None and name in MAY_BE_NULL:
                value = _OPTIONAL[name]
            if (number := self._number(value, f"devices[{index}].{name}")) is not None:
                column[index] = number
        return column

    def _flags(self, values: list[Any], where: str) -> Mask:
        for index, value in enumerate(values):
            if not isinstance(value, bool):
                text = json.dumps(value)
                self.faults.append(f"{where.format(index)} is {text:.40}; it must be true or false")
        return np.array([value is True for value in values])

    def _number(self, value: Any, where: str) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.faults.append(f"{where} is {json.dumps(value):.40}; it must be a number")
            return None
        try:
            return float(value)
        except OverflowError:
            self.faults.append(f"{where} is too large a number")
            return None

    def _set(self, raw: Any, where: str) -> Mask:
        """A list of devices, by the caller's names if they have any, else by number."""
        mask = np.zeros(self.count, bool)
        number = {name: index for index, name in enumerate(self.names or range(self.count))}
        proper = isinstance(raw, list) and all(
            type(entry) in (int, float, str) and entry in number for entry in raw
        )
        if proper and len(set(raw)) == len(raw):
            mask[[number[entry] for entry in raw]] = True
            return mask
        whose = f"device numbers from 0 to {self.count - 1}" if self.names is None else "the devices' ids"
        self.faults.append(f"{where} must be a list of different {whose}")
        return mask

    def _list(self, raw: Any, where: str, length: int | None) -> Array | None:
        """Numbers in a list, of which only the first wrong one is named."""
        if not isinstance(raw, list) or not raw or length not in (None, len(raw)):
            entries = "at least one number" if length is None else f"{length} numbers, one per device"
            self.faults.append(f"{where} must be a list of {entries}")
            return None
        before = len(self.faults)
        values = [self._number(value, f"{where}[{index}]") for index, value in enumerate(raw)]
        if len(self.faults) > before:
            del self.faults[before + 1 :]
            return None
        return np.array(values, dtype=np.float64)

    def _outlook(self, raw: Any) -> dict[str, Any]:
        if raw is None or not self._keys(raw, "outlook", ("rounds", "mean_gain"), ("fading",)):
            return {}
        rounds, fading = raw.get("rounds"), raw.get("fading", "none")
        if not _is_whole(rounds) or not 1 <= rounds <= 10**9:
            self.faults.append(
                f"outlook.rounds is {json.dumps(rounds):.40}; it must be a whole number from 1 to 1e9"
            )
        gain = self._list(raw.get("mean_gain"), "outlook.mean_gain", self.count)
        if gain is not None:
            for device, fault in wrong_values("channel_gain", gain).items():
                self.faults.append(f"outlook.mean_gain of {self._called(device)} {fault}")
        if isinstance(fading, str):
            law = LAWS.get(fading)
            factors = law(middles(FADING_LEVELS)) if law else None
            if law is None:
                self.faults.append(
                    f"outlook.fading is {json.dumps(fading):.40}; it must be {' or '.join(LAWS)}, or a list "
                    "of equally likely factors"
                )
        else:
            factors = self._list(fading, "outlook.fading", None)
            if factors is not None and not ((factors >= 0) & (factors <= 1e9)).all():
                self.faults.append("outlook.fading must be factors from 0 to 1e9")
        return {"rounds": int(rounds) if _is_whole(rounds) else 0, "mean_gain": gain, "fading": factors}

    def _outcome(self, raw: Any) -> dict[str, Any]:
        if raw is None or not self._keys(raw, "outcome", (), ("failed", "energy_j")):
            return {}
        failed = self._set(raw["failed"], "outcome.failed") if "failed" in raw else None
        energy_j = self._list(raw["energy_j"], "outcome.energy_j", self.count) if "energy_j" in raw else None
        if energy_j is not None:
            for device, fault in wrong_values("queue_j", energy_j).items():
                self.faults.append(f"outcome.energy_j of {self._called(device)} {fault}")
        return {"failed": failed, "energy_j": energy_j}
