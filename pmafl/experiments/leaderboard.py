"""The field's methods on one cell with one policy: how accurate they get, and what that costs.

Methods are paired by seed: the same channels, data and first weights. A method that computes or sends more
costs a device more in a round, so that a policy which heeds energy has it take part less often; what tuning
before a test takes is added once. Runs are kept as those of the figures are (`archive.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pmafl import comparison, data
from pmafl.comparison import Array, Job, split_outside, with_options
from pmafl.display import running
from pmafl.errors import InputError, NobodyInTime
from pmafl.experiments.archive import COSTS, Archive, Kept, keeper
from pmafl.experiments.making import Where
from pmafl.experiments.study import final, history, summaries
from pmafl.learning.algorithms import ALGORITHMS
from pmafl.settings import Settings, load
from pmafl.world import wireless_world

TARGETS = (0.80, 0.90, 0.95)  # of the best final accuracy
EVALUATIONS = 25  # of a run, unless the user says otherwise; where a method tunes, each costs much
OURS = "pma"  # what others are compared with, where it is there
OWN_KEYS = ("learning.algorithm", "learning.options")
SPENT = ("energy_j", "uploaded_bits", "time_s")  # by a device on average; the time is that of the whole run


@dataclass(frozen=True)
class Board:
    """What is compared.

    Attributes:
        name: of its files.
        methods: algorithms, each perhaps with options, as in ``fedprox:proximal_weight=0.1``.
        jobs: a run per method and seed.
        unfit: methods that no device can finish in time, with the reason.
        overrides: what the user set beside this.
    """

    name: str
    methods: tuple[str, ...]
    jobs: tuple[Job, ...]
    unfit: Mapping[str, str]
    overrides: Mapping[str, Any]

    @property
    def settings(self) -> Settings:
        """Of the first run."""
        return self.jobs[0].settings

    @property
    def seeds(self) -> list[int]:
        return sorted({job.seed for job in self.jobs})

    def facts(self) -> dict[str, Any]:
        """What tells one leaderboard of a name from another."""
        settings = self.settings
        return {
            "methods": list(self.methods),
            "seeds": self.seeds,
            "rounds": settings.run.rounds,
            "evaluate_every": settings.run.evaluate_every,
            "policy": in_words(settings.policy.name, settings.policy.options),
            "overrides": dict(self.overrides),
        }


@dataclass(frozen=True, eq=False)
class Entry:
    """A method on the board; arrays have an entry per seed.

    Attributes:
        numbers: `accuracy` and `worst_tenth` (percent, mean over the last fifth of the rounds), SPENT in the
            whole run, `accuracy_per_j` (percent), `devices` that take part in a round.
        reached: by target, SPENT until it was first reached; NaN for a seed that never did.
        diverged: seeds whose training ended without a loss.
        unbeaten: no other method has more accuracy for no more energy, or less energy at no less accuracy.
    """

    method: str
    numbers: Mapping[str, Array]
    reached: Mapping[float, Mapping[str, Array]]
    diverged: int
    unbeaten: bool


def in_words(name: str, options: Mapping[str, Any]) -> str:
    """A name with its options, as they are given on the command line."""
    return ":".join([name, *(f"{key}={_value(value)}" for key, value in options.items())])


def _value(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool | list | tuple) else str(value)


def read_methods(text: str | None) -> list[str]:
    """The methods of ``--algorithms``; all that are registered where it was not given."""
    if text is None:
        return ALGORITHMS.names()
    found = [part.strip() for part in split_outside(text, ",")]
    if not all(found):
        raise InputError(f"--algorithms {text!r:.80}: must be names between commas, for example pma,fedavg")
    if twice := [method for method in found if found.count(method) > 1]:
        raise InputError(f"--algorithms: names {twice[0]!r} twice")
    return found


def plan(
    source: str,
    overrides: Mapping[str, Any],
    methods: Sequence[str],
    seeds: int,
    policy: str | None,
    out: Path,
    archive: Archive,
) -> Board:
    """All runs of a leaderboard, checked as far as they are not done; wrong settings show here.

    Options that the settings have belong to the algorithm or the policy that they name, and to no other.
    """
    if clash := [key for key in overrides if key.startswith(OWN_KEYS)]:
        raise InputError(
            f"--set {clash[0]}: --algorithms chooses methods and their options, as in pma,ditto:weight=1"
        )
    base = load(source, overrides)
    _check(base)
    chosen = {**overrides, **_policy(base, policy)}
    own = in_words(base.learning.algorithm, base.learning.options)
    methods = [own if method == base.learning.algorithm else method for method in methods]
    chosen.setdefault("run.evaluate_every", max(1, base.run.rounds // EVALUATIONS))
    first = base.run.seed
    jobs = comparison.grid(source, chosen, {"learning.algorithm": methods}, range(first, first + seeds), out)
    unfit = _unfit(archive.unfinished(jobs))
    fit = tuple(job for job in jobs if method_of(job) not in unfit)
    if not fit:
        raise InputError(next(iter(unfit.values())))
    return Board(name_of(source, base, policy), tuple(methods), fit, unfit, overrides)


def _check(settings: Settings) -> None:
    for name in ("wireless", "learning"):
        if getattr(settings.run, name) != "full":
            raise InputError(f"run.{name} must be 'full': a leaderboard sets accuracy against energy")
    if settings.data.dataset not in data.KNOWN and data.known_data(settings.data).regression:
        raise InputError(
            f"data.dataset = {settings.data.dataset!r}: has values to predict; a leaderboard needs classes, "
            f"for it compares accuracies"
        )


def _policy(base: Settings, policy: str | None) -> dict[str, Any]:
    """The policy of the settings, or another one with none of its options."""
    if _is_own(base, policy):
        return {}
    return {"policy.options": {}, **with_options("policy.name", policy)}


def _is_own(base: Settings, policy: str | None) -> bool:
    own = base.policy
    return policy is None or policy in (own.name, in_words(own.name, own.options))


def name_of(source: str, base: Settings, policy: str | None) -> str:
    """Of the files: that of the settings, and the policy where it is another one."""
    if policy is None or _is_own(base, policy):
        return source_name(source)
    words = "".join(letter if letter.isalnum() else " " for letter in policy).split()
    return "-".join([source_name(source), *words])


def source_name(source: str) -> str:
    """Of settings: a preset, a file without its ending, or a directory."""
    if source == "-":
        return "settings"
    path = Path(source).resolve()
    return path.name if path.is_dir() else path.stem


def method_of(job: Job) -> str:
    return str(job.variation[0][1])


def _unfit(jobs: Iterable[Job]) -> dict[str, str]:
    """Methods under which no device can take part with some seed; options that are wrong are refused."""
    found: dict[str, str] = {}
    own: data.Dataset | None = None
    for job in jobs:
        if method_of(job) in found:
            continue
        if job.settings.data.dataset not in data.KNOWN:
            own = own or data.load_data(job.settings.data)
        try:
            wireless_world(job.settings, own)
        except NobodyInTime as error:
            found[method_of(job)] = str(error)
    return found


def run(board: Board, archive: Archive, where: Where) -> None:
    """Run what is missing, and keep it as it finishes."""
    file = f"leaderboard-{board.name}"
    title = f"leaderboard {board.name}"
    with running(title, *where, unfinished=archive.unfinished, after=keeper(archive, file)) as go:
        go(board.jobs)
    archive.keep(file, board.jobs)


def open_archive(results: Path, *beside: Path) -> Archive:
    """What is known of runs that have what a leaderboard needs of them."""
    return Archive(results, directories=True, needed=COSTS, beside=beside)


def measure(board: Board, archive: Archive) -> list[Entry]:
    """All methods, the most accurate first."""
    kept: dict[str, list[Kept]] = {}
    for job in sorted(board.jobs, key=lambda job: job.seed):
        found = archive.find(job)
        assert found is not None, "what is missing was run"
        kept.setdefault(method_of(job), []).append(found)
    devices = board.settings.fleet.devices
    numbers = {method: _numbers(known, devices) for method, known in kept.items()}
    best = max(float(found["accuracy"].mean()) for found in numbers.values())
    entries = [
        Entry(
            method,
            numbers[method],
            {part: _reached(kept[method], part * best, devices) for part in TARGETS},
            int(np.isnan([known.column("loss")[-1] for known in kept[method]]).sum()),
            _unbeaten(method, numbers),
        )
        for method in kept
    ]
    return sorted(entries, key=lambda entry: -entry.numbers["accuracy"].mean())


def _numbers(kept: Sequence[Kept], devices: int) -> dict[str, Array]:
    spent = [_spent(run, devices) for run in kept]
    found = {name: np.array([one[name][-1] for one in spent]) for name in SPENT}
    accuracy = 100 * final(kept, "accuracy")
    return {
        "accuracy": accuracy,
        "worst_tenth": 100 * final(kept, "worst_tenth_accuracy"),
        **found,
        "accuracy_per_j": accuracy / found["energy_j"],
        "devices": summaries(kept, "scheduled_devices_per_round"),
    }


def _spent(run: Kept, devices: int) -> dict[str, Array]:
    """SPENT up to each round, by a device that is then tested: what tuning takes is in all of them."""
    mean_j, rounds = run.column("mean_energy_j"), np.arange(1, len(run.columns["mean_energy_j"]) + 1)
    return {
        "energy_j": mean_j * rounds + (run.numbers.get("tuning_energy_j") or 0.0),
        "uploaded_bits": np.cumsum(run.column("uploaded_bits")) / devices,
        "time_s": np.cumsum(run.column("round_s")) + (run.numbers.get("tuning_s") or 0.0),
    }


def _reached(kept: Sequence[Kept], accuracy: float, devices: int) -> dict[str, Array]:
    """SPENT until an accuracy (percent) was first measured, of each run."""
    rounds, values = history(kept, "accuracy")
    found: dict[str, list[float]] = {name: [] for name in SPENT}
    for run, of_run in zip(kept, values, strict=True):
        there = np.flatnonzero(100 * of_run >= accuracy)
        spent = _spent(run, devices)
        for name in SPENT:
            found[name].append(spent[name][int(rounds[there[0]]) - 1] if there.size else np.nan)
    return {name: np.array(several) for name, several in found.items()}


def _unbeaten(method: str, numbers: Mapping[str, Mapping[str, Array]]) -> bool:
    """By the means over seeds."""

    def place(name: str) -> tuple[float, float]:
        return float(numbers[name]["accuracy"].mean()), -float(numbers[name]["energy_j"].mean())

    mine = place(method)
    return not any(
        theirs != mine and theirs[0] >= mine[0] and theirs[1] >= mine[1] for theirs in map(place, numbers)
    )


def reference(entries: Sequence[Entry]) -> Entry:
    """What differences are to: `pma`, else the most accurate."""
    return next((entry for entry in entries if entry.method == OURS), entries[0])
