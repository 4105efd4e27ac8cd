"""What a person sees of runs: a live panel or plain lines, a progress bar for many, tables at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from pmafl import comparison
from pmafl.comparison import METRICS, Job, Row, label, present_metrics, show
from pmafl.progress import Listener, listening
from pmafl.rounds import Record
from pmafl.world import World


class Watch(Protocol):
    """Shows rounds as they happen: a callback that also hears where a run begins."""

    def begin(self, world: World, done: int) -> None:
        """Start to show a run of which some rounds are done."""

    def __call__(self, world: World, record: Record) -> None:
        """Show a round."""


NAME_WIDTH = 40  # characters of a line of a variation's name
PATIENCE_S = 2.0  # until work that nobody sees says how far it is, and between two such lines


@contextmanager
def watching(console: Console) -> Iterator[Watch]:
    """Show rounds as they happen. Nothing shows before the run begins: it may be refused."""
    if console.is_terminal:
        live = _Live(console)
        try:
            with listening(patiently(live.say)):
                yield live
        finally:
            live.end()
    else:
        with listening(patiently(lambda line: console.print(line, highlight=False))):
            yield _Plain(console)


def patiently(show: Callable[[str], None]) -> Listener:
    """Shows how far work is as a line now and then, beginning when it has taken longer than 2 s."""
    shown_s: dict[str, float] = {}

    def listener(work: str, part: float) -> None:
        now_s = time.monotonic()
        if now_s - shown_s.setdefault(work, now_s) >= PATIENCE_S:
            shown_s[work] = now_s
            show(f"{work}: {part:.0%}")

    return listener


class _Plain:
    """A line per round."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def begin(self, world: World, done: int) -> None:
        for note in world.notes:
            self._print(note)
        if done:
            self._print(f"{done} of {world.settings.run.rounds} rounds are done")

    def __call__(self, world: World, record: Record) -> None:
        facts = "  ".join(f"{name} {value}" for name, value in _facts(world, record).items())
        self._print(f"round {record.round + 1}/{world.settings.run.rounds}  {facts}")

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, highlight=False)


class _Live:
    """A panel that changes in place."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("round"),
            MofNCompleteColumn(),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
        )
        self._panel = Live(self._progress, console=console, refresh_per_second=4)
        self._latest: dict[str, str] = {}

    def begin(self, world: World, done: int) -> None:
        for note in world.notes:
            self._progress.console.print(note, highlight=False)
        self._task = self._progress.add_task("rounds", total=world.settings.run.rounds, completed=done)
        self._panel.start(refresh=True)

    def __call__(self, world: World, record: Record) -> None:
        self._latest.update(_facts(world, record))
        table = Table.grid(padding=(0, 2))
        for name, value in self._latest.items():
            table.add_row(name, value)
        self._progress.update(self._task, completed=record.round + 1)
        self._panel.update(Group(self._progress, table))

    def say(self, line: str) -> None:
        """Show how far work between rounds is."""
        self._panel.update(Group(self._progress, line))

    def end(self) -> None:
        self._panel.stop()


def _facts(world: World, record: Record) -> dict[str, str]:
    dropped = f", {len(record.dropped)} dropped" if record.dropped else ""
    facts = {"scheduled": f"{len(record.scheduled)} devices, {record.scheduled_samples} samples{dropped}"}
    if world.settings.run.wireless == "full":
        mean_j, worst_j, budget_j = record.mean_energy_j, record.worst_energy_j, world.fleet.budget_j.mean()
        facts["energy"] = f"{mean_j:.3g} J per device and round, worst {worst_j:.3g}, budget {budget_j:.3g}"
    if record.accuracy is not None:
        facts["accuracy"] = f"{record.accuracy:.2%}, worst tenth {record.worst_tenth_accuracy:.2%}"
    if record.error is not None:
        facts["error"] = f"{record.error:.4g}, worst tenth {record.worst_tenth_error:.4g}"
    return facts


@contextmanager
def running(
    title: str,
    engine: Literal["local", "ray"],
    workers: int | None,
    address: str | None,
    unfinished: Callable[[Sequence[Job]], list[Job]] = comparison.unfinished,
    after: Callable[[Sequence[Job]], None] = lambda jobs: None,
) -> Iterator[Callable[[Sequence[Job]], None]]:
    """A function that runs those of some jobs that are not done yet; one progress bar shows all its calls.

    `after` is called with these jobs whenever one of them is done.
    """
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        bar = progress.add_task(title, total=0, visible=False)  # until there is something to run
        known = 0

        def run(jobs: Sequence[Job]) -> None:
            nonlocal known
            waiting = unfinished(jobs)
            known += len(jobs)

            def report(done: int, total: int) -> None:
                progress.update(bar, total=known, completed=known - total + done, visible=True)
                after(waiting)

            report(0, len(waiting))
            comparison.run(waiting, report, engine, workers, address)

        try:
            yield run
        except KeyboardInterrupt:
            progress.console.print("stopped; the same command goes on from here", highlight=False)
            raise


def summary_table(summary: dict[str, Any]) -> Table:
    """The end of a run as a table."""
    table = Table(show_header=False, title=f"{summary['rounds']} rounds, policy {summary['policy']}")
    for name, text in _summary_rows(summary):
        table.add_row(name, text)
    return table


def _summary_rows(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if summary["final_accuracy"] is not None:
        yield "algorithm", summary["algorithm"]
        accuracy, spread = summary["final_accuracy"], summary["accuracy_std_over_devices"]
        yield "final accuracy", f"{accuracy:.2%} (standard deviation over devices {spread:.2%})"
        yield "best accuracy", f"{summary['best_accuracy']:.2%}"
    if summary.get("final_error") is not None:
        yield "algorithm", summary["algorithm"]
        error, spread = summary["final_error"], summary["error_std_over_devices"]
        yield "final error", f"{error:.4g} on average (standard deviation over devices {spread:.4g})"
        yield "best error", f"{summary['best_error']:.4g}"
    if summary["final_accuracy"] is not None or summary.get("final_error") is not None:
        loss = summary["final_loss"]
        yield "final loss", "not a number: the training diverged" if loss is None else f"{loss:.4f}"
    devices, samples = summary["scheduled_devices_per_round"], summary["scheduled_samples_per_round"]
    yield "scheduled per round", f"{devices:.1f} devices, {samples:.0f} samples"
    if summary["energy_per_device_round_j"] is not None:
        budget_j = summary["budget_j"]
        mean_j, worst_j = summary["energy_per_device_round_j"], summary["max_energy_per_device_round_j"]
        yield (
            "energy per device and round",
            f"{mean_j:.4g} J ({mean_j / budget_j:.0%} of the budget of {budget_j:.4g} J)",
        )
        share = summary.get("max_share_of_budget", worst_j / budget_j)  # older runs have no such number
        yield "worst device", f"{worst_j:.4g} J; at most {share:.0%} of a device's own budget"
    yield "time", time.strftime("%H:%M:%S", time.gmtime(summary["wall_time_s"]))


def comparison_tables(rows: Sequence[Row], width: int) -> list[Table]:
    """A comparison: mean and 95% interval of each metric, paired differences to the baseline under it.

    Several tables where one would not fit so many characters: no number is cut off.
    """
    metrics = present_metrics(rows)
    names = [label(row.variation).replace(", ", "\n") for row in rows]
    taken = 4 + min(NAME_WIDTH, max(len(line) for name in names for line in name.split("\n")))
    groups: list[list[str]] = [[]]
    left = width - taken
    for metric in metrics:
        needed = 3 + max(len(cell) for row in rows for cell in _cells(row, metric))
        if groups[-1] and needed > left:
            groups.append([])
            left = width - taken
        groups[-1].append(metric)
        left -= needed
    title = f"mean ± 95% interval over {rows[0].seeds} seeds; below: paired difference to the first"
    return [_comparison_table(rows, names, group, title) for group in groups]


def _cells(row: Row, metric: str) -> tuple[str, str]:
    """A metric of a row and its difference, as people read them."""
    return show(row.metrics.get(metric), metric), show(row.differences.get(metric), metric, signed=True)


def _comparison_table(rows: Sequence[Row], names: Sequence[str], metrics: Sequence[str], title: str) -> Table:
    table = Table(title=title)
    table.add_column("", overflow="fold", max_width=NAME_WIDTH)
    for metric in metrics:
        table.add_column(METRICS[metric], justify="right")
    for row, name in zip(rows, names, strict=True):
        cells = [_cells(row, metric) for metric in metrics]
        table.add_row(name, *(value for value, _ in cells))
        if row.differences:
            table.add_row("", *(difference for _, difference in cells), style="dim")
    return table


def warn(console: Console, sentences: Iterable[str]) -> None:
    """What is wrong with the numbers of a table, or what they say of budgets, under it."""
    for sentence in filter(None, sentences):
        console.print(Text(sentence), style="yellow", soft_wrap=True, highlight=False)
