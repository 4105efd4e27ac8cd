"""Everything a user can set, as one frozen, validated tree with units in the names.

Settings start from a preset or a TOML file (`extends = "mnist"` builds on another one) and take overrides
such as ``cell.bandwidth_hz=2e7``. Whatever is wrong with them becomes one `InputError` line that names the
key, the value and what is allowed. Names that other rooms register (policies, algorithms) are checked there.
"""

import difflib
import functools
import hashlib
import json
import math
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

import tomli_w
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    model_serializer,
    model_validator,
)

from pmafl.brief import summary
from pmafl.errors import InputError
from pmafl.paths import Origins, get, make_absolute, origins_of, origins_of_overrides

PRESETS = ("mnist", "cifar10", "watch", "tracker", "sensor", "phone")
DAY_S = 86_400.0
MOST_BITS = 14_000  # of a whole number; from 4,300 digits on Python does not print them
# Settings that name a thing with options of its own, and where these stand.
OPTIONS = {
    "policy.name": "policy.options",
    "learning.algorithm": "learning.options",
    "learning.upload": "learning.upload_options",
    "learning.model": "learning.model_options",
    "cell.channel": "cell.options",
}
TOO_MANY_DIGITS = "has a whole number of thousands of digits; write a large one as 1e300"


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """A list for 100,000 devices is not shown one by one."""
        for name, value in super().__repr_args__():
            yield name, _Shown(summary(value)) if isinstance(value, tuple) else value


class _Shown(str):
    """Text that a repr shows as it is."""

    __repr__ = str.__str__


class Distribution(Section):
    """A spread over devices: ``uniform`` and ``loguniform`` between low and high, or ``choice`` of values."""

    distribution: Literal["uniform", "loguniform", "choice"]
    low: float = 0.0
    high: float = 0.0
    values: tuple[float, ...] = ()

    @model_serializer
    def table(self) -> dict[str, Any]:
        """What a user writes, without the fields that this kind has no use for."""
        used = ("values",) if self.distribution == "choice" else ("low", "high")
        return {name: getattr(self, name) for name in ("distribution", *used)}


Spread = float | tuple[float, ...] | Distribution
SPREAD_FORMS = (
    'a number, a list with one number per device, {distribution = "uniform" or "loguniform", low, high} '
    'or {distribution = "choice", values = [...]}'
)


def _number(value: Any, allowed: str = SPREAD_FORMS) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be {allowed}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("must be finite")
    return number


def bounds(spread: Spread) -> tuple[float, float]:
    """The smallest and the largest value that a spread can take."""
    if isinstance(spread, Distribution):
        return (min(spread.values), max(spread.values)) if spread.values else (spread.low, spread.high)
    return (min(spread), max(spread)) if isinstance(spread, tuple) else (spread, spread)


def _distribution(table: Mapping[str, Any]) -> Distribution:
    kind = table.get("distribution")
    needed = {"uniform": {"low", "high"}, "loguniform": {"low", "high"}, "choice": {"values"}}.get(str(kind))
    if needed is None or set(table) != needed | {"distribution"}:
        raise ValueError(f"must be {SPREAD_FORMS}")
    if kind == "choice":
        if not isinstance(table["values"], list | tuple) or not table["values"]:
            raise ValueError("needs a list of values with at least one number")
        return Distribution(distribution="choice", values=tuple(_number(v) for v in table["values"]))
    low, high = _number(table["low"]), _number(table["high"])
    if low > high:
        raise ValueError(f"needs low <= high, but low is {low} and high is {high}")
    return Distribution(distribution=kind, low=low, high=high)  # type: ignore[arg-type]


def _spread(
    at_least: float = 0.0, whole: bool = False, words: tuple[str, ...] = (), zero: bool = False
) -> BeforeValidator:
    """Validate a spread whose values are positive, or 0 where that is allowed, and at least `at_least`."""

    def check(value: Any) -> Any:
        if isinstance(value, str):
            if value in words:
                return value
            raise ValueError("must be " + "".join(f'"{word}", ' for word in words) + SPREAD_FORMS)
        if isinstance(value, Distribution):
            value = value.table()
        if isinstance(value, Mapping):
            spread: Spread = _distribution(value)
        elif isinstance(value, list | tuple):
            if not value:
                raise ValueError("is an empty list; it needs one number per device")
            spread = tuple(_number(v) for v in value)
        else:
            spread = _number(value)
        lowest, _ = bounds(spread)
        if zero:
            if lowest < 0:
                raise ValueError("must be 0 or more")
            if lowest == 0 and isinstance(spread, Distribution) and spread.distribution == "loguniform":
                raise ValueError("must be greater than 0, for a loguniform distribution")
        elif lowest <= 0 or lowest < at_least:
            raise ValueError(
                f"must be {'at least ' + format(at_least, 'g') if at_least else 'greater than 0'}"
            )
        if whole and not isinstance(spread, Distribution):
            values = spread if isinstance(spread, tuple) else (spread,)
            if any(v != int(v) for v in values):
                raise ValueError("must be whole numbers")
        return spread

    return BeforeValidator(check)


PositiveSpread = Annotated[Spread, _spread()]
NonNegativeSpread = Annotated[Spread, _spread(zero=True)]
SampleSpread = Annotated[Spread | Literal["equal"], _spread(at_least=1, whole=True, words=("equal",))]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]


class CellSettings(Section):
    """The radio cell and the round's deadline."""

    bandwidth_hz: Positive = Field(description="uplink band shared by the scheduled devices")
    noise_dbm_per_hz: float = Field(ge=-250, le=100, description="noise power density")
    deadline_s: Positive = Field(description="time of a round for receiving, computing and uploading")
    downlink_bps: NonNegative = Field(
        default=0.0, description="rate at which devices receive what is shared; 0: that takes no time"
    )
    side_m: Positive = Field(
        description="side of the square in which devices are placed, server in the centre"
    )
    min_distance_m: Positive = Field(description="no device stands closer to the server")
    reference_gain_db: float = Field(
        ge=-200, le=50, description="channel power gain at the reference distance"
    )
    reference_distance_m: Positive = Field(description="distance at which the reference gain holds")
    path_loss_exponent: float = Field(ge=0, le=10, description="gain falls with distance to this power")
    channel: str = Field(
        default="exponential",
        min_length=1,
        description='"exponential" (the paper), "none", "rician", "shadowing", or "package.module:model"',
    )
    options: dict[str, Any] = Field(default_factory=dict, description="the channel model's own options")
    gain_trace: str = Field(
        default="",
        description="file with channel gains, rounds x devices (.npy or CSV); replaces the model's draws",
    )

    @model_validator(mode="after")
    def _devices_fit_in_the_cell(self) -> "CellSettings":
        if self.min_distance_m > self.side_m / 2:
            raise ValueError(
                f"min_distance_m = {self.min_distance_m:g} must be at most half of side_m = {self.side_m:g}"
            )
        return self


class FleetSettings(Section):
    """The devices. Every quantity is a number for all, a list, or a distribution."""

    devices: int = Field(ge=1, le=10_000_000, description="number of devices K")
    samples: SampleSpread = Field(description='training samples per device; "equal" divides the data set')
    cycles_per_operation: PositiveSpread = Field(description="CPU cycles for one multiply-add")
    max_frequency_hz: PositiveSpread = Field(description="fastest CPU clock")
    max_power_w: PositiveSpread = Field(description="largest transmit power")
    budget_j: PositiveSpread = Field(description="long-term energy budget a round")
    energy_coefficient: Positive = Field(description="kappa of the CPU energy kappa * cycles * f^2")
    circuit_power_w: NonNegativeSpread = Field(
        default=0.0, description="drawn while a device is awake, beside its CPU's and its transmit power"
    )
    receive_power_w: NonNegativeSpread = Field(
        default=0.0, description="drawn while a device receives, on top of the circuit's"
    )
    connect_energy_j: NonNegativeSpread = Field(
        default=0.0, description="what waking up and connecting costs a device that takes part"
    )
    sleep_power_w: NonNegativeSpread = Field(
        default=0.0, description="drawn all the time, outside of learning and of its budget"
    )
    battery_j: NonNegativeSpread = Field(default=0.0, description="what a full battery holds; 0: not known")

    @model_validator(mode="after")
    def _lists_have_one_value_a_device(self) -> "FleetSettings":
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != self.devices:
                raise ValueError(f"{name} lists {len(value)} values, but devices = {self.devices}")
        return self


class DataSettings(Section):
    """The data set and how it is split over the devices."""

    dataset: str = Field(
        min_length=1,
        description='"mnist", "fashion-mnist", "cifar10", "watch", a .npz or .csv file, a folder/ with a '
        'file per client, or "package.module:callable"; "none" where nothing is trained',
    )
    directory: str = Field(
        default="", description="where the files are; empty: the cache, filled when needed"
    )
    partition: Literal["shards", "iid", "dirichlet", "natural"] = Field(
        description='"shards", "iid", "dirichlet", or "natural": a device is a client of the data'
    )
    shards_per_device: int = Field(default=2, ge=1, description="for shards: pieces of one class per device")
    dirichlet_alpha: Positive = Field(default=0.5, description="for dirichlet: small is uneven, large is IID")
    test_split: Literal["all", "proportional"] = Field(
        default="all",
        description='a device is tested on "all" test samples of its classes, or "proportional"; natural '
        "clients on their own",
    )
    inputs: Literal["standardised", "unit", "tokens"] = Field(
        default="standardised",
        description='"standardised" (mean 0, standard deviation 1), "unit" (0 to 1), or "tokens": whole '
        "numbers as they are, which networks with an embedding get in any case",
    )
    layout: Literal["auto", "NTF", "NCT", "NHW", "NCHW", "NHWC"] = Field(
        default="auto",
        description="axes of own samples: N samples, C channels, H height, W width, T time, F features; "
        '"auto" tells by their number and size',
    )
    task: Literal["auto", "classification", "regression"] = Field(
        default="auto", description='of own data; "auto": whole numbers and words are classes'
    )
    target: str = Field(
        default="", description="array or column of own data with labels or values; empty: y, label or target"
    )
    client: str = Field(
        default="client",
        description="array or column of own data that says whose sample it is, if it is there",
    )


COUNTED = ("count", "paper", "training")  # ways to have a model's operations counted


def _operations(value: Any) -> float | str:
    allowed = "".join(f'"{word}", ' for word in COUNTED)[:-2] + " or a number"
    if isinstance(value, str) and value in COUNTED:
        return value
    if (number := _number(value, allowed)) <= 0:
        raise ValueError(f"must be {allowed} greater than 0")
    return number


class LearningSettings(Section):
    """The model, its split and the training on a device."""

    algorithm: str = Field(
        min_length=1,
        description='"pma", "fedavg", "ditto" and others (docs/algorithms.md), or "package.module:algorithm"',
    )
    model: str = Field(
        min_length=1,
        description='"mlp", "cnn", "resnet8", "resnet18", "cnn1d", "lstm", or "package.module:callable"',
    )
    model_options: dict[str, Any] = Field(
        default_factory=dict, description='the network\'s own options, such as norm = "group" of a resnet'
    )
    shared_layers: int = Field(
        ge=0, description="layers that are uploaded and aggregated, counted from below"
    )
    shared_prefix: str = Field(
        default="", description="instead of a number of layers: parameters with this name prefix are shared"
    )
    shared: tuple[str, ...] = Field(
        default=(),
        description='instead of a number of layers: names of what is shared, such as ["layer1.*", "!*.bn*"]',
    )
    buffers: Literal["shared", "personal", "frozen"] = Field(
        default="shared",
        description='running statistics: "shared" with the layers around them, "personal", or "frozen"',
    )
    operations_per_sample: Annotated[
        float | Literal["count", "paper", "training"], PlainValidator(_operations)
    ] = Field(
        default="count",
        description='multiply-adds per sample and iteration: "count" those of the model\'s forward pass, '
        '"training" its gradient\'s too, "paper" as "count" but for the MLP its parameters, or a number',
    )
    extractor_rate: Positive = Field(description="learning rate of the shared part")
    predictor_rate: Positive = Field(description="learning rate of the personal part")
    momentum: float = Field(ge=0, lt=1, description="momentum, with a fresh buffer every round")
    iterations: int = Field(ge=1, le=10_000, description="local iterations per round, each over all samples")
    batch_size: int = Field(
        default=0, ge=0, description="0: one full-batch step an iteration; else one epoch of such batches"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="the algorithm's own options")
    upload: str = Field(
        default="rounding",
        min_length=1,
        description='how uploads are encoded: "rounding", "qsgd", "top-k", "random-k", "sign", or '
        '"package.module:upload"',
    )
    upload_options: dict[str, Any] = Field(
        default_factory=dict, description="the upload's own options; a list has one value per device"
    )
    upload_bits_per_parameter: Literal[8, 16, 32] = Field(
        default=16, description='uploads are rounded to this, where upload is "rounding"'
    )
    upload_bits: Annotated[float, Field(ge=0, le=1e15)] = Field(
        default=0.0, description="size of an upload where nothing is trained; 0: the shared part of the model"
    )
    aggregation: Literal["mean", "median", "trimmed-mean", "clipped-mean"] = Field(
        default="mean",
        description='how uploads are combined: "mean" (by samples), or against hostile devices "median", '
        '"trimmed-mean" or "clipped-mean" (each device counts once)',
    )
    trim_share: float = Field(
        default=0.2, ge=0, lt=0.5, description="for trimmed-mean: share of devices dropped at each end"
    )
    clip_factor: Positive = Field(
        default=1.0, description="for clipped-mean: longest change of a device, in medians of the round's"
    )
    precision: Literal["fp32", "bf16"] = Field(default="fp32", description="arithmetic of local training")
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="where training runs")

    @model_validator(mode="after")
    def _one_way_to_say_what_is_shared(self) -> "LearningSettings":
        if self.shared and self.shared_prefix:
            raise ValueError("shared and shared_prefix are both set: use one of them")
        if any(not pattern.removeprefix("!") for pattern in self.shared):
            raise ValueError(
                'shared has an empty pattern; one is a name such as "layer1.*", or "!" and a name'
            )
        return self


class PolicySettings(Section):
    """How devices are scheduled and how their energy is kept within budget."""

    name: str = Field(min_length=1, description='a scheduling policy by name, or "package.module:policy"')
    tradeoff: NonNegative = Field(description="V: weight of scheduled samples against queue-weighted energy")
    queue_start_j: NonNegative = Field(default=0.0, description="start value of every queue; 0 is the paper")
    hard_budget: bool = Field(
        default=False, description="true: no device ever spends more than its whole budget"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="the policy's own options")


class RunSettings(Section):
    """How long, from which seed, and which side of the system runs."""

    rounds: int = Field(ge=1, le=10_000_000, description="communication rounds")
    seed: int = Field(ge=0, lt=2**63, description="the one seed of all random streams")
    learning: Literal["full", "none"] = Field(default="full", description='"none": the wireless side alone')
    wireless: Literal["full", "none"] = Field(
        default="full", description='"none": no limits on band, deadline or energy (learning alone)'
    )
    rounds_per_day: NonNegative = Field(
        default=0.0, description="how often rounds take place; 0: one after another"
    )
    evaluate_every: int = Field(default=1, ge=1, description="rounds between evaluations")
    checkpoint_every: int = Field(default=1, ge=1, description="rounds between checkpoints")
    plugin_path: tuple[str, ...] = Field(
        default=(), description="folders that plug-ins (package.module:name) are imported from"
    )

    @model_validator(mode="after")
    def _something_runs(self) -> "RunSettings":
        if self.learning == "none" and self.wireless == "none":
            raise ValueError('learning and wireless are both "none": nothing would run')
        return self


class Settings(Section):
    """A complete run. `load` makes one from a preset, a file and overrides."""

    cell: CellSettings
    fleet: FleetSettings
    data: DataSettings
    learning: LearningSettings
    policy: PolicySettings
    run: RunSettings

    @model_validator(mode="after")
    def _what_is_trained_is_known(self) -> "Settings":
        if self.data.dataset == "none" and self.fleet.samples == "equal":
            raise ValueError('data.dataset = "none" has no samples to divide; say in fleet.samples how many')
        if self.run.learning == "none":
            return self
        if self.data.dataset == "none":
            raise ValueError('data.dataset = "none" trains nothing: set run.learning = "none", or name data')
        if self.learning.upload_bits:
            raise ValueError(
                f"learning.upload_bits = {self.learning.upload_bits:g} stands for a model that is not "
                'trained: set run.learning = "none", or leave it 0'
            )
        return self

    @model_validator(mode="after")
    def _rounds_fit_the_day(self) -> "Settings":
        if self.run.rounds_per_day * self.cell.deadline_s > DAY_S:
            raise ValueError(
                f"run.rounds_per_day = {self.run.rounds_per_day:g} rounds of cell.deadline_s = "
                f"{self.cell.deadline_s:g} s do not fit a day"
            )
        return self

    @model_validator(mode="after")
    def _some_device_can_compute_in_time(self) -> "Settings":
        operations, samples = self.learning.operations_per_sample, self.fleet.samples
        if self.run.wireless == "none" or operations in COUNTED or samples == "equal":
            return self  # known only with the model and the data; the fleet checks it then
        work = self.learning.iterations * bounds(samples)[0] * bounds(self.fleet.cycles_per_operation)[0]
        fastest_s = float(operations) * work / bounds(self.fleet.max_frequency_hz)[1]
        if fastest_s >= self.cell.deadline_s:
            raise ValueError(
                f"cell.deadline_s = {self.cell.deadline_s:g} is not longer than the fastest device's compute "
                f"time of {fastest_s:.4g} s: raise it, or lower fleet.samples or learning.iterations"
            )
        return self

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What tells runs apart; `to_toml` has everything."""
        yield "dataset", self.data.dataset
        yield "devices", self.fleet.devices
        yield "policy", self.policy.name
        if self.run.learning == "full":
            yield "algorithm", self.learning.algorithm
        if self.run.wireless == "none":
            yield "wireless", "none"
        yield "rounds", self.run.rounds
        yield "seed", self.run.seed

    def changed(self) -> dict[str, Any]:
        """What is not at its default, by `section.key`."""
        known = self.model_dump(mode="json", exclude_defaults=True)
        return {f"{section}.{key}": value for section, keys in known.items() for key, value in keys.items()}

    def digest(self) -> str:
        """Names these settings; settings that a later version adds, at their defaults, do not change it."""
        return hashlib.sha256(json.dumps(self.changed(), sort_keys=True).encode()).hexdigest()[:12]

    def to_toml(self) -> str:
        """The complete settings as TOML with a comment a key; `parse` reads it back unchanged."""
        lines = []
        for section_name in type(self).model_fields:
            section: Section = getattr(self, section_name)
            lines.append(f"[{section_name}]")
            for key, field in type(section).model_fields.items():
                lines += [f"# {field.description}", f"{key} = {_toml_value(getattr(section, key))}"]
            lines.append("")
        return "\n".join(lines)


def _toml_value(value: Any) -> str:
    """One TOML value on one line (tomli_w breaks lists over lines and tables into sections)."""
    if isinstance(value, Distribution):
        value = value.table()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml_key(k)} = {_toml_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(v) for v in value) + "]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")


def _toml_key(key: str) -> str:
    return tomli_w.dumps({key: 0}).rsplit(" = ", 1)[0]


def load(source: str | Path = "mnist", overrides: Mapping[str, Any] | None = None) -> Settings:
    """Settings from a preset's name, a TOML file or ``-`` (standard input), then overrides by dotted key.

    Options go with the name that they were given to: another policy, algorithm, upload, network or channel
    starts without those of the one before.

    Relative paths start at the folder of the file that has them, those of overrides and of standard input at
    the working directory; they become absolute.

    >>> import pmafl
    >>> pmafl.load_settings("mnist", {"cell.bandwidth_hz": 2e7}).cell.bandwidth_hz
    20000000.0
    """
    return build(load_tree(source, overrides))


def load_tree(source: str | Path, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The same before it is checked: sections of plain values, those that settings do not know included."""
    tree, origins = _read(str(source), ())
    tree = _with_overrides(tree, overrides or {})
    make_absolute(tree, origins | origins_of_overrides(overrides or {}))
    return tree


def parse(text: str, where: str = "settings") -> Settings:
    """Settings from TOML text, as `Settings.to_toml` writes it."""
    tree, origins = _resolve(_parse_toml(text, where), where, Path(), ())
    make_absolute(tree, origins)
    return build(tree)


def parse_assignment(text: str) -> tuple[str, Any]:
    """``key=value`` of the command line, the value as TOML or else as a plain string."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise InputError(f"{_shorten(text)}: must be KEY=VALUE, for example cell.bandwidth_hz=2e7")
    if not _is_text(key):
        raise InputError(f"{_shorten(text)}: must be text in UTF-8")
    try:
        parsed = tomllib.loads(f"x = {value}")["x"]
    except (tomllib.TOMLDecodeError, RecursionError):
        parsed = value.strip()
    except ValueError:
        raise InputError(f"{key:.60} = {value:.60}...: {TOO_MANY_DIGITS}") from None
    _plain(parsed, key)
    return key, parsed


def build(tree: Mapping[str, Any]) -> Settings:
    """Validate a tree of plain values; one clear line if it is wrong."""
    try:
        return Settings.model_validate(_plain(tree))
    except ValidationError as error:
        raise InputError(_first_line(error)) from None
    except RecursionError:
        raise InputError("the settings are nested too deeply; they are sections of plain values") from None


def _plain(value: Any, key: str = "") -> Any:
    """A tree with plain values: those of numpy and paths turned into Python's own, lists into tuples.

    Text that no file can hold and numbers that nobody can print are refused here, before they do harm.
    """
    if hasattr(value, "tolist"):  # arrays and scalars of numpy, whichever library made them
        value = value.tolist()
    elif isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, Mapping):
        return {_plain(name, key): _plain(item, f"{key}.{name}".strip(".")) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_plain(item, key) for item in value)
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise InputError(f"{key:.60}: {TOO_MANY_DIGITS}")
    if isinstance(value, str) and not _is_text(value):
        raise InputError(f"{key:.60} = {_shorten(value)}: must be text in UTF-8")
    return value


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read(source: str, seen: tuple[str, ...]) -> tuple[dict[str, Any], Origins]:
    """The tree of a source, laid over what it extends, and where its relative paths start."""
    if source in PRESETS:
        text = resources.files("pmafl").joinpath("presets", f"{source}.toml").read_text(encoding="utf-8")
        return _resolve(_parse_toml(text, source), source, Path(), seen)
    if source == "-":
        return _resolve(_parse_toml(_all_of(sys.stdin), "standard input"), "standard input", Path(), seen)
    path = Path(source)
    try:
        if path.is_dir() and (path / "settings.toml").is_file():  # a run directory stands for its settings
            path = path / "settings.toml"
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise InputError(
            f"{_shorten(source, 200)} is neither a preset ({', '.join(PRESETS)}) nor a readable TOML file"
        ) from None
    return _resolve(_parse_toml(text, source), source, path.parent, seen)


@functools.lru_cache(maxsize=1)
def _all_of(stream: TextIO) -> str:
    """What a stream holds, also for those who ask again."""
    return stream.read()


def _parse_toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{where}: not valid TOML: {error}") from None
    except ValueError:
        raise InputError(f"{where}: {TOO_MANY_DIGITS}") from None


def _resolve(
    tree: dict[str, Any], where: str, folder: Path, seen: tuple[str, ...]
) -> tuple[dict[str, Any], Origins]:
    """Lay a tree over what it extends. Keys of a section replace each other whole; options go with names."""
    base = tree.pop("extends", None)
    own = origins_of(tree, folder)
    if base is None:
        return tree, own
    if not isinstance(base, str):
        raise InputError(f"{where}: extends = {base!r} must be a preset's name or a file")
    if base not in PRESETS:
        base = str((folder / base).resolve())
    if base in seen:
        raise InputError(f"{where}: extends goes round in a circle: {' -> '.join((*seen, base))}")
    merged, origins = _read(base, (*seen, base))
    _drop_options_of_others(merged, {key: get(tree, key) for key in OPTIONS if get(tree, key) is not None})
    for name, section in tree.items():
        both_tables = isinstance(section, dict) and isinstance(merged.get(name), dict)
        merged[name] = {**merged[name], **section} if both_tables else section
    return merged, origins | own


def _drop_options_of_others(tree: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
    """Forget the options of each thing that a change names another one in place of."""
    for key in OPTIONS.keys() & changes.keys():
        section, _, name = key.partition(".")
        fields: Any = Settings.model_fields[section].annotation
        table = tree.get(section)
        if isinstance(table, dict):
            named = table.get(name, fields.model_fields[name].default)
            if not (isinstance(named, str) and isinstance(changes[key], str) and named == changes[key]):
                table.pop(OPTIONS[key].partition(".")[2], None)


def _with_overrides(tree: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    _drop_options_of_others(tree, overrides)
    for key, value in overrides.items():
        if not isinstance(key, str):
            raise InputError(f"{_shorten(key)} is not a setting; they have names, such as cell.bandwidth_hz")
        *parents, last = key.split(".")
        table = tree
        for parent in parents:
            table = table.setdefault(parent, {})
            if not isinstance(table, dict):
                raise InputError(f"{key} is not a setting: {parent} is a value, not a table")
        table[last] = value
    return tree


def _first_line(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden" and key in RENAMED:
        return f"{key} is called {RENAMED[key]} since version 0.2"
    if first["type"] == "extra_forbidden":
        return f"{key} is not a setting{_did_you_mean(key)}"
    if first["type"] == "missing":
        return f'{key} is missing: add it, or start from a preset with extends = "mnist"'
    rule = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    if first["type"] == "model_type":
        rule = "must be a table of settings"
    elif first["type"] == "tuple_type":
        rule = f"must be a list of {LISTS.get(key, 'values')}"
    elif first["type"] == "float_type":
        rule = f"must be a number{_unit(key)}"
    if isinstance(first["input"], Mapping) and first["type"] == "value_error" and key.count(".") < 1:
        return f"{key}: {rule}" if key else rule  # a rule over several keys names them itself
    return f"{key} = {_shorten(first['input'])}: {rule}"


# What version 0.1 called them.
RENAMED = {
    "cell.fading": "cell.channel",
    "learning.proximal_weight": "learning.options.proximal_weight",
    "learning.fedrep_work": "learning.options.work",
}
LISTS = {"learning.shared": 'patterns, for example ["layer1.*", "!*.bn*"]', "run.plugin_path": "folders"}
UNITS = {"hz": "hertz", "s": "seconds", "m": "metres", "w": "watts", "j": "joules", "db": "decibels"}


def _unit(key: str) -> str:
    unit = UNITS.get(key.rpartition("_")[2])
    return f" in {unit}" if unit else ""


def _did_you_mean(key: str) -> str:
    sections: dict[str, Any] = {name: field.annotation for name, field in Settings.model_fields.items()}
    known = [f"{name}.{inner}" for name, section in sections.items() for inner in section.model_fields]
    near = difflib.get_close_matches(key, [*known, *sections], n=1, cutoff=0.5)
    if near:
        return f"; did you mean {near[0]}?"
    inside = [name for name in known if name.startswith(key.split(".")[0] + ".")] or list(sections)
    return f"; there are {', '.join(inside)}"


def _shorten(value: Any, length: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= length else text[: length - 3] + "..."
