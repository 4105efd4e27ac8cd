"""Damaged, foreign and hostile run directories: the exact result, or one clear line; never a wrong one."""

import json
import os
import random
import shutil

import pytest

from pmafl import runs
from pmafl.errors import InputError
from pmafl.plots import plot_run
from pmafl.settings import load
from tests.conftest import tiny_overrides
from tests.runs.directories import Stop, commit_every_round, contents, run, stop_after, unseal


@pytest.fixture(scope="module")
def made(tmp_path_factory, tiny_data):
    """Runs of one seed: stopped after 4 of 5 rounds, its twin, and whole; two of another seed."""
    place = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as monkeypatch:
        commit_every_round(monkeypatch)
        for name, seed in (("run", 0), ("foreign", 7), ("twin", 0)):
            with pytest.raises(Stop):
                run(place / name, tiny_overrides(tiny_data) | {"run.seed": seed}, [stop_after(3)])
        for name, seed in (("whole", 0), ("finished-foreign", 7)):
            run(place / name, tiny_overrides(tiny_data) | {"run.seed": seed})
    return place


@pytest.fixture
def stopped(made, tmp_path, monkeypatch):
    """A copy of the stopped run, beside copies of the others."""
    commit_every_round(monkeypatch)
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "run"


def newest(directory, kind="state"):
    return sorted((directory / "checkpoint").glob(f"{kind}-*.safetensors"))[-1]


def test_checkpoints_ahead_of_the_records_are_not_thrown_away(stopped):
    lines = (stopped / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (stopped / "rounds.jsonl").write_bytes(b"".join(lines[:-2]))
    before = sorted(path.name for path in (stopped / "checkpoint").iterdir())
    with pytest.raises(InputError, match=r"ends after line 2, but the checkpoint of round 4 needs 4 lines"):
        runs.execute(stopped)
    assert sorted(path.name for path in (stopped / "checkpoint").iterdir()) == before
    (stopped / "rounds.jsonl").write_bytes(b"".join(lines))
    runs.execute(stopped)
    assert contents(stopped) == contents(stopped.parent / "whole")


def test_one_line_too_few_goes_back_to_the_checkpoint_before(stopped, capsys):
    lines = (stopped / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (stopped / "rounds.jsonl").write_bytes(b"".join(lines[:-1]))
    runs.execute(stopped)
    assert "round 4 is computed again: rounds.jsonl ends after line 3" in capsys.readouterr().err
    assert (stopped / "checkpoint" / "set-aside" / "state-00000004.safetensors").exists()
    assert contents(stopped) == contents(stopped.parent / "whole")


def test_a_bad_byte_after_the_last_line_costs_nothing(stopped, capsys):
    with open(stopped / "rounds.jsonl", "ab") as lines:
        lines.write(b"\xff\n")
    seen = []
    runs.execute(stopped, begin=lambda world, done: seen.append(done))
    assert seen == [4]
    assert "line 5 of rounds.jsonl is damaged" in capsys.readouterr().err
    assert (stopped / "rounds.damaged.jsonl").read_bytes() == b"\xff\n"
    assert contents(stopped) == contents(stopped.parent / "whole")


def test_a_damaged_line_is_named(stopped):
    content = bytearray((stopped / "rounds.jsonl").read_bytes())
    content[content.index(b"\n") + 30] ^= 1
    (stopped / "rounds.jsonl").write_bytes(content)
    for use in (runs.execute, runs.read_records, plot_run):
        with pytest.raises(InputError, match=r"line 2 "):
            use(stopped)


def files_of(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_refused_run_changes_nothing(tmp_path, tiny):
    """Also before the first round of the run that is there."""
    runs.create(tmp_path / "run", load("mnist", tiny))
    before = files_of(tmp_path / "run")
    with runs.locked(tmp_path / "run"):
        for refused in (runs.create, runs.run):
            with pytest.raises(InputError, match="another process is running it"):
                refused(tmp_path / "run", load("mnist", tiny | {"run.seed": 7}))
    assert files_of(tmp_path / "run") == before


def test_no_other_process_gets_between_making_and_running(tmp_path, tiny):
    refused = []

    def intrude(world, done):
        with pytest.raises(InputError) as error:
            runs.create(tmp_path / "run", load("mnist", tiny | {"run.seed": 7}))
        refused.append(str(error.value))

    summary = runs.run(tmp_path / "run", load("mnist", tiny), begin=intrude)
    assert summary["seed"] == 1
    assert "another process" in refused[0]


def test_edited_settings_are_refused_with_what_differs(stopped):
    path = stopped / "settings.toml"
    path.write_text(
        path.read_text().replace("seed = 0", "seed = 7").replace("momentum = 0.9", "momentum = 0.5")
    )
    with pytest.raises(InputError, match=r"run\.seed = 7, was 0") as error:
        runs.execute(stopped)
    assert "learning.momentum = 0.5, was 0.9" in str(error.value)
    path.write_text(
        path.read_text().replace("seed = 7", "seed = 0").replace("momentum = 0.5", "momentum = 0.9")
    )
    path.write_text("# a comment is no setting\n" + path.read_text())
    runs.execute(stopped)
    assert contents(stopped) == contents(stopped.parent / "whole")


def test_edited_settings_of_a_finished_run_are_refused(stopped):
    path = stopped.parent / "whole" / "settings.toml"
    path.write_text(path.read_text().replace("seed = 0", "seed = 7"))
    with pytest.raises(InputError, match=r"was changed since the run began \(run\.seed = 7, was 0\)"):
        runs.execute(path.parent)


def test_another_runs_checkpoint_is_refused(stopped):
    for other, what in (("foreign", "run"), ("twin", "run")):
        shutil.copy(newest(stopped.parent / other), stopped / "checkpoint")
        with pytest.raises(InputError, match=f"state-00000004.safetensors belongs to another {what}"):
            runs.execute(stopped)


def test_a_finished_directory_without_settings_is_not_a_new_run(stopped, tiny):
    whole = stopped.parent / "whole"
    (whole / "settings.toml").unlink()
    assert runs.read_summary(whole) is None
    with pytest.raises(InputError, match=r"has rounds.jsonl of a run without settings.toml; choose another"):
        run(whole, tiny | {"run.seed": 7})
    for name in ("rounds.jsonl", "run.json"):
        (whole / name).unlink()
    with pytest.raises(InputError, match=r"has summary.json of a run without settings.toml; choose another"):
        run(whole, tiny | {"run.seed": 7})


def test_leftovers_of_killed_processes_are_swept(stopped):
    ours = [stopped / ".summary.json.4711", stopped / "checkpoint" / ".heads-00000003.safetensors.12"]
    theirs = [stopped / ".notes.1", stopped / "checkpoint" / ".bashrc"]
    for path in ours + theirs:
        path.write_bytes(b"half")
    runs.execute(stopped)
    assert not any(path.exists() for path in ours)
    assert all(path.exists() for path in theirs)


@pytest.mark.parametrize("name", [".lock", "rounds.jsonl"])
def test_a_symbolic_link_is_not_written_to(stopped, name):
    victim = stopped.parent / "victim"
    victim.write_bytes(b"precious")
    (stopped / name).unlink(missing_ok=True)
    (stopped / name).symlink_to(victim)
    with pytest.raises(InputError):
        runs.execute(stopped)
    assert victim.read_bytes() == b"precious"


def test_names_that_are_not_checkpoints_are_left_alone(stopped):
    strange = stopped / "checkpoint" / "state-abc.safetensors"
    strange.write_bytes(b"")
    runs.execute(stopped)
    assert strange.exists()
    assert contents_without(stopped, strange) == contents(stopped.parent / "whole")


def contents_without(directory, path):
    path.unlink()
    return contents(directory)


def test_a_directory_of_version_0_1_is_refused_unless_finished(stopped):
    records = runs.read_records(stopped)
    unseal(stopped)
    (stopped / "run.json").unlink()
    assert runs.read_records(stopped) == records
    with pytest.raises(InputError, match=r"no run\.json.*version 0\.1.*pmafl run .* --out NEW"):
        runs.execute(stopped)
    summary = {"rounds": 5, "final_accuracy": 0.5}
    (stopped / "summary.json").write_text(json.dumps(summary))
    assert runs.execute(stopped) == summary


def test_a_newer_format_is_refused(stopped):
    found = json.loads((stopped / "run.json").read_text())
    (stopped / "run.json").write_text(json.dumps(found | {"format": 99}))
    with pytest.raises(InputError, match="format 99 is another version's"):
        runs.execute(stopped)


def mutations(chance, names):
    """A hundred ways to spoil a directory, each a name and a function of it and its neighbours."""

    def flip(path):
        content = bytearray(path.read_bytes())
        for _ in range(chance.choice((1, 1, 5)) if content else 0):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)

    def shorten(path):
        content = path.read_bytes()
        path.write_bytes(content[: chance.randrange(len(content) + 1)])

    def junk(path):
        path.write_bytes(chance.randbytes(chance.choice((0, 3, 500))))

    def grow(path):
        path.write_bytes(path.read_bytes() + chance.randbytes(9))

    def folder(path):
        path.unlink()
        path.mkdir()

    def pipe(path):
        path.unlink()
        os.mkfifo(path)

    def swap(other):
        def change(path):
            found = path.parents[1 if path.parent.name == "checkpoint" else 0].parent / other
            theirs = found / path.relative_to(path.parents[1 if path.parent.name == "checkpoint" else 0])
            if theirs.exists():
                shutil.copy(theirs, path)

        change.__name__ = f"swap-{other}"
        return change

    def link(path):
        theirs = path.parents[1 if path.parent.name == "checkpoint" else 0].parent / "foreign" / path.name
        path.unlink()
        path.symlink_to(theirs)

    def gone(path):
        path.unlink()

    ways = (flip, flip, flip, shorten, junk, grow, folder, pipe, link, gone)
    ways += tuple(swap(other) for other in ("foreign", "twin", "finished-foreign"))
    return [(way, name) for name in names for way in ways]


@pytest.mark.heavy
@pytest.mark.parametrize("base", ["run", "whole"])
def test_a_hundred_spoilt_directories_are_exact_or_one_line(stopped, base, capsys):
    place = stopped.parent
    expected = contents(place / "whole")
    summary = runs.read_summary(place / "whole")
    names = ["settings.toml", "run.json", "rounds.jsonl", ".lock", "summary.json"]
    names += [f"checkpoint/{path.name}" for path in sorted((place / base / "checkpoint").iterdir())]
    names = [name for name in names if (place / base / name).exists()]
    ways = mutations(random.Random(base), names)
    assert len(ways) >= 90
    exact = 0
    for number, (way, name) in enumerate(ways):
        directory = place / f"spoilt-{number}"
        shutil.copytree(place / base, directory)
        way(directory / name)
        try:
            found = runs.execute(directory)
            records = runs.read_records(directory)
        except InputError as error:
            assert "\n" not in str(error), (way, name)
            continue
        exact += 1
        assert {k: v for k, v in found.items() if k not in ("wall_time_s", "identity")} == {
            k: v for k, v in summary.items() if k not in ("wall_time_s", "identity")
        }, (way, name)
        assert len(records) == 5
        if way.__name__ not in ("junk", "link") and base == "run":
            assert contents(directory) == expected, (way, name)
        shutil.rmtree(directory)
    assert exact > 20
