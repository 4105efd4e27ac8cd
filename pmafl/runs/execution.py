"""Making a run directory, and running it to its end from wherever it stands, under one lock.

The result of a run that was interrupted, however and however often, is that of one that was not, to the bit.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pmafl import files, learning
from pmafl.devices import Devices
from pmafl.errors import InputError
from pmafl.paths import keep, kept
from pmafl.rounds import Callback, advance, start
from pmafl.runs.checkpoints import CHECKPOINT, Checkpoints
from pmafl.runs.identity import (
    IDENTITY,
    SETTINGS,
    Identity,
    check_settings,
    make_longer,
    new_identity,
    read_identity,
    settings_text,
    with_rounds,
    write_identity,
)
from pmafl.runs.journal import Journal
from pmafl.runs.records import RECORDS, read_records
from pmafl.runs.recovery import Recovered, recover
from pmafl.runs.run import FEDERATION, Folder, Run, find_settings, read_settings
from pmafl.runs.summary import SUMMARY, summarise, write_summary
from pmafl.settings import Settings, parse
from pmafl.workers import Engine, Team, simulated_devices
from pmafl.world import World, build_world, wireless_world

THREADS = 1  # that training uses: more cores are for workers, whose number changes no bit

Begin = Callable[[World, int], None]  # hears of the number of rounds that are done already


def create(directory: Folder, settings: Settings) -> None:
    """Make a new run directory that holds nothing but its settings and its name.

    Settings that cannot run are refused before anything is written. A directory whose run never got to its
    first round is taken again.
    """
    directory = Path(directory)
    _refuse_remains(directory)
    wireless_world(settings)
    with _one_line(directory), _new_run(directory, settings):
        pass


def run(
    directory: Run | Folder,
    settings: Settings,
    callbacks: Iterable[Callback] = (),
    *,
    wait: bool = False,
    again: bool = False,
    begin: Begin | None = None,
    workers: int | None = None,
    engine: Engine = "local",
    address: str | None = None,
) -> dict[str, Any]:
    """Make a run directory and run it to its end, as `create` and `execute`, but under one lock.

    With `again`, a directory that already holds a run goes on; its settings must be these.
    """
    team = Team(workers, engine, address)
    this = directory if isinstance(directory, Run) else Run(directory)
    world = None
    if not (again and remains(this.directory)):
        _refuse_remains(this.directory)
        with _threads(settings, None):
            world = build_world(settings)  # what cannot run is refused before the directory is touched
    with _one_line(this.directory), _new_run(this.directory, settings, wait, again):
        settings = kept(settings, this.directory)
        this.hold(settings=settings)
        if world:
            this.world = replace(world, settings=settings)
        return _execute(this, list(callbacks), None, begin, team)


def execute(
    directory: Run | Folder,
    callbacks: Iterable[Callback] = (),
    wait: bool = False,
    *,
    rounds: int | None = None,
    begin: Begin | None = None,
    workers: int | None = None,
    engine: Engine = "local",
    address: str | None = None,
) -> dict[str, Any]:
    """Run what a run directory asks for, from where it stands to its end; return its summary.

    A finished run is not run again, unless `rounds` makes it longer. Callbacks see every new round; `begin`
    hears before the first one how many are done. With `wait`, a process that is still running the directory
    is waited for, instead of being an error. A `Run` that is given holds the result afterwards.

    The devices of a round are trained by so many `workers` (default: one per core), in processes here, or
    with `engine` "ray" on the cluster at an address. That changes how long it takes, and nothing else.
    """
    this = directory if isinstance(directory, Run) else Run(directory)
    find_settings(this.directory)  # what is no run directory gets no lock
    with _one_line(this.directory), files.locked(this.directory, wait):
        this.hold()  # whoever held the lock may have changed everything
        return _execute(this, list(callbacks), rounds, begin, Team(workers, engine, address))


def remains(directory: Path) -> str:
    """The name of what a run that got to a round has left in a directory; empty if there is nothing."""
    checkpoints = Checkpoints(directory / CHECKPOINT, new_identity(""))
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if (directory / RECORDS).stat().st_size:
            return RECORDS
    if (directory / SUMMARY).exists():
        return SUMMARY
    with contextlib.suppress(NotADirectoryError):
        return CHECKPOINT if checkpoints.rounds() or checkpoints.rounds("heads") else ""
    return ""


def identify(directory: Path, rounds: int | None = None, settings: Settings | None = None) -> Identity:
    """Whose a run directory is; refused if its settings are not those that the run began with.

    `rounds` may make it longer. A directory that holds settings alone gets a name. Its `settings` are read
    unless they are given.
    """
    settings = settings or read_settings(directory)
    identity = read_identity(directory)
    if identity is None:
        if left := remains(directory):
            raise InputError(
                f"{directory} has {left} but no {IDENTITY}, which says whose it is: version 0.1 wrote none; "
                f"go on with that version, or run it anew with pmafl run {directory} --out NEW"
            )
        identity = write_new(directory, settings)
    check_settings(directory, identity, rounds)
    if rounds is None or (rounds == settings.run.rounds and settings_text(directory) == identity.settings):
        return identity
    if rounds < settings.run.rounds:
        raise InputError(
            f"--rounds {rounds}: {directory} is a run of {settings.run.rounds} rounds; it can only be longer"
        )
    longer = parse(with_rounds(identity.settings, rounds)).run
    wireless_world(settings.model_copy(update={"run": longer}))  # recorded channel gains may be too few
    return make_longer(directory, identity, rounds)


def carry_on(
    this: Run,
    found: Recovered,
    devices: Devices,
    callbacks: Iterable[Callback] = (),
    *,
    begin: Begin | None = None,
    threads: int | None = None,
    every_round: bool = False,
) -> dict[str, Any]:
    """Advance a run from where it was found to stand to its end; return its summary.

    Args:
        this: the run, with its world.
        devices: who takes part.
        threads: with which training runs here, to be the same when the run goes on.
        every_round: whether no round may be lost, because devices remember one round back.
    """
    callbacks, world, directory = list(callbacks), this.world, this.directory
    state = start(world)
    if found.saved:
        state = found.saved.restore(state)
    with Journal(directory, found, world.settings.run, threads, every_round) as journal:
        if begin:
            begin(world, state.round)
        while state.round < world.settings.run.rounds:
            state, record = advance(world, devices, state)
            journal.add(state, record)
            for callback in callbacks:
                callback(world, record)
    rows = read_records(directory)
    budget_j = Run(directory, this.settings, world).budget_j  # what real devices said last
    summary = summarise(world, state, budget_j, rows, journal.wall_time_s)
    summary = write_summary(directory, summary, found.identity)
    this.hold(settings=this.settings, world=world, rows=rows, summary=summary)
    return summary


def _execute(
    this: Run, callbacks: list[Callback], rounds: int | None, begin: Begin | None, team: Team
) -> dict[str, Any]:
    directory, before = this.directory, this.settings
    if rounds in (None, before.run.rounds) and (finished := this.summary) is not None:
        return finished
    if (directory / FEDERATION).is_file():
        raise InputError(f"{directory} is a federation's run, and devices keep their heads: use flwr run")
    found = recover(directory, identify(directory, rounds, before))
    if rounds not in (None, before.run.rounds):
        this.hold()
    elif found.saved:  # then the world is built anew, with the threads that it was built with at first
        this.hold(settings=before)
    if found.threads not in (None, 1):
        print(f"{directory}: goes on with {found.threads} threads, as it began", file=sys.stderr)
    with _threads(this.settings, found.threads) as threads:
        _say_what_is_longer(directory, before, this.world, found.round)
        with simulated_devices(this.world, team, threads or 1) as devices:
            return carry_on(this, found, devices, callbacks, begin=begin, threads=threads)


@contextlib.contextmanager
def _new_run(directory: Path, settings: Settings, wait: bool = False, again: bool = False) -> Iterator[None]:
    """The lock of a directory with a new run in it, or `again` one with these settings.

    A directory that is refused is not touched.
    """
    try:
        files.make_folder(directory)
    except OSError as error:
        raise _unusable(directory, error) from None
    with files.locked(directory, wait):
        if again and remains(directory):
            if read_settings(directory) != kept(settings, directory):
                raise InputError(f"{directory} holds a run with other settings")
        else:
            _refuse_remains(directory)  # whoever held the lock may have begun one
            write_new(directory, settings)
        yield


def write_new(directory: Path, settings: Settings) -> Identity:
    """Write settings and name of a new run, in place of one that never got to a round."""
    for name in (FEDERATION, SETTINGS):  # settings come back last: with them the directory is a run
        files.remove(directory / name)
    files.sweep(directory)
    identity = new_identity(keep(settings, directory).to_toml())
    write_identity(directory, identity)
    files.write_atomically(directory / SETTINGS, identity.settings.encode())
    return identity


def _unusable(directory: Path, error: OSError) -> InputError:
    return InputError(f"{directory!s:.200}: cannot be written ({error.strerror})")


def _refuse_remains(directory: Path) -> None:
    try:
        left = remains(directory)
    except OSError as error:
        raise _unusable(directory, error) from None
    if left:
        if (directory / SETTINGS).exists():
            raise InputError(
                f"{directory} already holds a run; go on with --resume {directory}, or choose another --out"
            )
        raise InputError(f"{directory} has {left} of a run without {SETTINGS}; choose another --out")


@contextlib.contextmanager
def _one_line(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        on = f"; nothing is lost, go on with --resume {directory}" if (directory / SETTINGS).exists() else ""
        raise InputError(f"{directory}: {error.strerror or error}{on}") from error


@contextlib.contextmanager
def _threads(settings: Settings, before: int | None) -> Iterator[int | None]:
    """Train with one thread, or as many as the run began with: another number gives other last bits."""
    if settings.run.learning == "none":
        yield None
        return
    with learning.threads(count := before or THREADS):
        yield count


def _say_what_is_longer(directory: Path, before: Settings, world: World, done: int) -> None:
    """A longer run is the one that would have been long from the start, but for what is said here."""
    was, rounds, policy = before.run.rounds, world.settings.run.rounds, before.policy
    if rounds == was or not done:
        return
    if world.policy.plans or policy.hard_budget:
        who = f"policy {policy.name}" if world.policy.plans else "policy.hard_budget"
        print(
            f"{directory}: {who} plans with the number of rounds, and {done} were decided for {was}: this "
            f"is not what {rounds} rounds from the start would have given",
            file=sys.stderr,
        )
    if done == was and before.run.learning == "full" and was % before.run.evaluate_every:
        print(
            f"{directory}: round {was} keeps its evaluation, which {rounds} rounds from the start would not "
            "have made",
            file=sys.stderr,
        )
