"""Files and the lock as they are on Windows, played here: no fcntl, no folders to sync, flags of its own."""

import errno
import fcntl
import importlib.util
import os
import sys
from types import SimpleNamespace

import pytest

from pmafl import files
from pmafl.errors import InputError

LK_LOCK, LK_NBLCK = 1, 2


@pytest.fixture
def locks():
    """What Windows would have been asked for."""
    return []


@pytest.fixture
def windows(monkeypatch, locks):
    """The module as Windows loads it. Who asks for a lock that another has is refused, at once or later."""

    def locking(descriptor, mode, count):
        locks.append(mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            refused = errno.EDEADLK if mode == LK_LOCK else errno.EACCES
            raise OSError(refused, "Permission denied") from None

    msvcrt = SimpleNamespace(LK_LOCK=LK_LOCK, LK_NBLCK=LK_NBLCK, locking=locking)
    monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_DIRECTORY"):
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(sys, "platform", "win32")
    spec = importlib.util.spec_from_file_location("files_on_windows", files.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_are_written_and_read(windows, tmp_path):
    windows.make_folder(tmp_path / "a" / "b")
    windows.write_atomically(tmp_path / "a" / "b" / "c", b"1\n2\n")
    appender = windows.Appender(tmp_path / "a" / "b" / "c", 2)
    appender.append(b"3\n")
    appender.sync()
    appender.close()
    assert windows.read_bytes(tmp_path / "a" / "b" / "c") == b"1\n3\n"


def test_one_process_has_the_lock(windows, tmp_path):
    again = windows.locked(tmp_path)
    with windows.locked(tmp_path), pytest.raises(InputError, match="another process is running it"):
        again.__enter__()
    with windows.locked(tmp_path):
        pass


def test_who_waits_for_the_lock_gets_it(windows, tmp_path, locks, monkeypatch):
    held = windows.locked(tmp_path)
    held.__enter__()
    ask = sys.modules["msvcrt"].locking

    def locking(descriptor, mode, count):
        if len(locks) == 3:  # it was refused twice by now
            held.__exit__(None, None, None)
        ask(descriptor, mode, count)

    monkeypatch.setattr(sys.modules["msvcrt"], "locking", locking)
    with windows.locked(tmp_path, wait=True):
        assert locks == [LK_NBLCK, LK_LOCK, LK_LOCK, LK_LOCK]


def test_symbolic_links_are_refused(windows, tmp_path):
    (tmp_path / "other").write_bytes(b"kept")
    (tmp_path / "rounds.jsonl").symlink_to(tmp_path / "other")
    with pytest.raises(InputError, match="is a symbolic link"):
        windows.Appender(tmp_path / "rounds.jsonl", 0)
    assert (tmp_path / "other").read_bytes() == b"kept"
