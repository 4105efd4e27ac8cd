"""What the page of a run shows of its rounds, from the records and from what the settings say anyway.

Positions and channels are not in a record: they follow from the settings and the seed, and are computed again
as the round loop did. Where a run is too large for a page, rounds are left out in equal steps.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmafl.devices import Report, SimulatedDevices
from pmafl.rounds import State, energy_of, length_s, round_problem, start
from pmafl.runs import FEDERATION, Run, map_columns
from pmafl.scheduling import Decision, Outcome, begin, left_out, queues, tell
from pmafl.wireless import Array, RoundProblem, frequency
from pmafl.world import download_time_s, outlook

MOST_DEVICES = 20_000  # on the map
MOST_CURVE_POINTS = 5_000  # more than a screen has pixels across
MOST_TURNS = 80_000  # of devices in rounds, in detail
MOST_CELLS = 200_000  # of a table of devices and rounds
MOST_REASONS = 30_000  # sentences

SCALARS = (
    "scheduled_samples",
    "mean_energy_j",
    "worst_energy_j",
    "mean_queue_j",
    "max_queue_j",
    "objective",
    "lower_bound",
    "gap",
    "accuracy",
    "loss",
    "accuracy_std",
    "worst_tenth_accuracy",
    "global_accuracy",
)
ACCURACIES = ("accuracy", "accuracy_std", "worst_tenth_accuracy", "global_accuracy")
TURNS = ("bandwidth_share", "compute_time_s", "upload_time_s", "compute_energy_j", "upload_energy_j")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Steps:
    """Of which rounds a page holds what: every so many, from the first on."""

    curve: int
    detail: int
    table: int
    tests: int
    reasons: int

    def within(self, step: int, index: int, rounds: int) -> bool:
        return index % step == 0 or index == rounds - 1


def choose_steps(devices: int, rounds: int, turns: int, evaluate_every: int = 1) -> Steps:
    """Steps that keep a page small, for so many devices, rounds, and turns of devices in all of them.

    `tests` counts evaluated rounds, the others all rounds.
    """
    shown = min(devices, MOST_DEVICES)
    detail = math.ceil(turns / MOST_TURNS) if turns else 1
    if detail > 1:  # then the page also needs the queues of these rounds
        detail = max(detail, math.ceil(shown * rounds / MOST_CELLS))
    return Steps(
        curve=math.ceil(rounds / MOST_CURVE_POINTS),
        detail=detail,
        table=math.ceil(shown * rounds / MOST_CELLS),
        tests=math.ceil(shown * rounds / evaluate_every / MOST_CELLS),
        reasons=math.ceil(shown * rounds / MOST_REASONS),
    )


class Story:
    """Follows the rounds of a run as they come, and tells of each batch what a page needs.

    It follows the round loop with the loop's own functions, so queues and channels are the run's.
    """

    def __init__(self, run: Run, steps: Steps) -> None:
        self.run, self.steps = run, steps
        self.world = replace(run.wireless_world, fleet=run.fleet)
        self.federation = (run.directory / FEDERATION).is_file()
        self.counts_energy = run.settings.run.wireless == "full"
        devices = self.world.fleet.devices
        count = min(devices, MOST_DEVICES)
        self.shown = np.unique(np.linspace(0, devices - 1, count).astype(np.intp))
        self._place = np.full(devices, -1)
        self._place[self.shown] = np.arange(self.shown.size)
        self._devices = SimulatedDevices(self.world)
        self._state: State = start(self.world)
        self.received_s = np.broadcast_to(download_time_s(self.world), devices)
        self._turns = np.zeros(devices)
        self.shows: set[str] = set()  # of "rounds", "gains", "scores", "errors" and "bound", what was told
        self._remembered: dict[str, NDArray[Any]] | None = None  # by a policy that has prices of its own
        self._tests = 0
        self._columns: NDArray[np.void] | None = None
        self._seconds = self._joules = 0.0

    @property
    def rounds(self) -> int:
        """How many were told."""
        return self._state.round

    def tell(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The next rounds, as a page takes them."""
        batch = _Batch(self.steps.detail == 1)
        with contextlib.suppress(FileNotFoundError):
            self._columns = map_columns(self.run.directory)
        for row in rows:
            self._round(row, batch)
        tree = batch.tree()
        told = {
            "rounds": bool(rows),
            "gains": tree["gain"]["rounds"].size > 0,
            "scores": tree["accuracy"]["rounds"].size > 0,
            "errors": any("error" in row for row in rows),  # of predicted values, instead of accuracies
            "bound": bool(np.isfinite(tree["points"]["gap"]).any()),
        }
        self.shows |= {name for name, there in told.items() if there}
        return tree

    def _round(self, row: Row, batch: _Batch) -> None:
        index, rounds, steps = self._state.round, self.run.settings.run.rounds, self.steps
        report = self._devices.report(index)
        scheduled = np.array(row["scheduled"], dtype=np.intp)
        energy_j = np.zeros(self._turns.size)
        energy_j[scheduled] = energy_of(row)
        wants_words = steps.within(steps.reasons, index, rounds)
        problem = self._problem(report) if self.counts_energy else None
        delivered = np.isin(np.arange(self._turns.size), scheduled)
        delivered[row["failed"]] = False
        priced = self._priced(row, problem, Outcome(delivered, energy_j, np.full(energy_j.size, np.nan)))
        if wants_words:
            batch.reasons.append([index, self._reasons(row, priced)])
        self._state = State(
            round=index + 1,
            queues=queues.advance(self._state.queues, energy_j, self.world.fleet.budget_j),
            last_turn=np.where(delivered, index, self._state.last_turn),
            last_loss=self._state.last_loss,
            policy=None,
            devices={},
            learning=None,
        )
        self._turns[scheduled] += 1
        self._joules += float(energy_j.sum())
        self._seconds += length_s(row, self.run.settings, self.received_s)
        if steps.within(steps.curve, index, rounds):
            batch.point(index, self._seconds, self._joules, row)
        if steps.within(steps.detail, index, rounds):
            self._detail(index, row, scheduled, problem, batch)
        known = self._known(index)
        if steps.within(steps.table, index, rounds) and self.counts_energy:
            if not self.federation:
                batch.gain.add(index, report.gain[self.shown])
            elif known is not None:
                batch.gain.add(index, known["channel_gain"][self.shown])
        if known is not None:
            self._scores(index, known, batch)

    def _problem(self, report: Report) -> RoundProblem:
        return round_problem(self.world, self._state, report)

    def _detail(
        self, index: int, row: Row, scheduled: NDArray[np.intp], problem: RoundProblem | None, batch: _Batch
    ) -> None:
        kept = self._place[scheduled] >= 0
        columns = {name: np.array(row[name], dtype=np.float64) for name in TURNS}
        columns["energy_j"] = energy_of(row)
        columns |= {"frequency_hz": np.zeros(scheduled.size), "power_w": np.zeros(scheduled.size)}
        if problem is not None and scheduled.size:
            compute_s, upload_s = columns["compute_time_s"], columns["upload_time_s"]
            work_cycles = problem.work_cycles[scheduled]
            columns["frequency_hz"] = np.minimum(
                frequency(compute_s, work_cycles), problem.max_frequency_hz[scheduled]
            )
            columns["power_w"] = np.divide(
                columns["upload_energy_j"], upload_s, out=np.zeros_like(upload_s), where=upload_s > 0
            )
        losses = row.get("train_loss") or [None] * scheduled.size
        columns["train_loss"] = np.array([np.nan if loss is None else loss for loss in losses], float)
        batch.detail(index, self._place[scheduled][kept], {n: v[kept] for n, v in columns.items()}, row)
        if not batch.every:
            state = self._state.queues
            batch.states.append([v[self.shown] for v in (state.queue_j, state.spent_j, self._turns)])

    def _known(self, index: int) -> np.void | None:
        """The row of an evaluated round in the file of devices."""
        if self._columns is None:
            return None
        place = int(np.searchsorted(self._columns["round"], index))
        found = place < len(self._columns) and self._columns["round"][place] == index
        return self._columns[place] if found else None

    def _scores(self, index: int, known: np.void, batch: _Batch) -> None:
        """What devices scored, in every so many tests and in the last."""
        if self._tests % self.steps.tests == 0 or index == self.run.settings.run.rounds - 1:
            score = known["accuracy"][self.shown]
            if np.isnan(score).all():
                score = known["error"][self.shown]
            if not np.isnan(score).all():
                batch.accuracy.add(index, score)
        self._tests += 1

    def _priced(self, row: Row, problem: RoundProblem | None, outcome: Outcome) -> RoundProblem | None:
        """The problem at the policy's own prices, if it has any: they are followed from round to round."""
        policy, name = self.world.policy, self.run.settings.policy.name
        if problem is None or self.federation or not policy.has_prices:
            return problem
        if self._remembered is None:
            self._remembered = begin(policy, outlook(self.world), name)
        before = self._remembered
        self._remembered = tell(policy, before, problem, _decision(row, problem), outcome, name)
        return policy.priced(problem, before)

    def _reasons(self, row: Row, problem: RoundProblem | None) -> list[Any]:
        """Who was left out of the round, and why: numbers of the page's devices, and a sentence for each."""
        devices, taken = self._turns.size, set(row["scheduled"])
        if self.federation:
            words = _reasons_of_real_devices(row, devices)
        elif problem is None:
            words = dict.fromkeys(set(range(devices)) - taken, "was not drawn by the policy")
        else:
            words = left_out(problem, _decision(row, problem))
        found = [(int(self._place[device]), said) for device, said in sorted(words.items())]
        found = [(place, said) for place, said in found if place >= 0]
        return [np.array([place for place, _ in found], dtype=np.int32), [said for _, said in found]]


def _decision(row: Row, problem: RoundProblem) -> Decision:
    """The round's decision again, as the record has it."""
    scheduled, dropped = (np.isin(np.arange(problem.devices), row[key]) for key in ("scheduled", "dropped"))
    allocated: dict[str, Any] = {}
    for name in (*TURNS, "awake_energy_j", "frequency_hz", "power_w"):
        allocated[name] = np.zeros(problem.devices)
        if row.get(name):
            allocated[name][row["scheduled"]] = row[name]
    return Decision("", scheduled, **allocated, objective=row.get("objective") or 0.0, dropped=dropped)


def _reasons_of_real_devices(row: Row, devices: int) -> Mapping[int, str]:
    """In a federation the server alone knew the channels; the record has who could not be asked."""
    answered, aside = set(row.get("answered", range(devices))), {}
    for offence in row.get("set_aside", []):
        aside[offence.get("device")] = "was set aside for what it sent in an earlier round"
    words = {}
    for device in set(range(devices)) - set(row["scheduled"]):
        if device in aside:
            words[device] = aside[device]
        elif device not in answered:
            words[device] = "did not answer before the decision"
        elif device in row["dropped"]:
            words[device] = "was dropped to make the others fit"
        else:
            words[device] = "was not chosen by the policy"
    return words


class _Table:
    """A number for each device in some rounds."""

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.rows: list[Array] = []

    def add(self, index: int, values: Array) -> None:
        self.rounds.append(index)
        self.rows.append(values.astype(np.float32))

    def tree(self) -> dict[str, Any]:
        return {"rounds": np.array(self.rounds, np.int32), "values": _joined(self.rows, np.float32)}


class _Batch:
    """Rounds on their way to a page."""

    def __init__(self, every: bool) -> None:
        self.every = every
        self.points: dict[str, list[float]] = {
            name: [] for name in ("round", "seconds", "joules", "scheduled", *SCALARS)
        }
        self.frames: list[int] = []
        self.counts: list[int] = []
        self.device: list[NDArray[np.intp]] = []
        self.columns: dict[str, list[Array]] = {
            name: [] for name in (*TURNS, "energy_j", "frequency_hz", "power_w", "train_loss")
        }
        self.failed: dict[int, list[int]] = {}
        self.states: list[list[Array]] = []
        self.gain, self.accuracy = _Table(), _Table()
        self.reasons: list[list[Any]] = []

    def point(self, index: int, seconds: float, joules: float, row: Row) -> None:
        values = {name: row.get(name) for name in SCALARS}
        if row.get("error") is not None:  # where values are predicted, errors stand for accuracies
            values |= {name: row[name.replace("accuracy", "error")] for name in ACCURACIES}
        values |= {"round": index, "seconds": seconds, "joules": joules, "scheduled": len(row["scheduled"])}
        for name, value in values.items():
            self.points[name].append(math.nan if value is None else float(value))

    def detail(self, index: int, device: NDArray[np.intp], columns: Mapping[str, Array], row: Row) -> None:
        self.frames.append(index)
        self.counts.append(device.size)
        self.device.append(device)
        for name, values in columns.items():
            self.columns[name].append(values)
        if row["failed"]:
            self.failed[index] = row["failed"]

    def tree(self) -> dict[str, Any]:
        tree: dict[str, Any] = {
            "points": {name: np.array(values, np.float64) for name, values in self.points.items()},
            "frames": np.array(self.frames, np.int32),
            "counts": np.array(self.counts, np.int32),
            "turns": {
                "device": _joined(self.device, np.int32),
                **{name: _joined(values, np.float32) for name, values in self.columns.items()},
            },
            "failed": self.failed,
            "gain": self.gain.tree(),
            "accuracy": self.accuracy.tree(),
            "reasons": self.reasons,
        }
        if not self.every:
            names = ("queue_j", "spent_j", "turns")
            by_name = zip(*self.states, strict=True) if self.states else [[], [], []]
            tree["states"] = {
                name: _joined(list(values), np.float32) for name, values in zip(names, by_name, strict=True)
            }
        return tree


def _joined(arrays: Sequence[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    return np.concatenate(arrays).astype(kind) if arrays else np.zeros(0, kind)
