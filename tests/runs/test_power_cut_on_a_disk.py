"""The same on a real file system: ext4 in a file, shut down in mid-run without writing its log."""

import fcntl
import os
import posix
import random
import shutil
import struct
import subprocess
import threading

import pytest

from pmafl import runs
from pmafl.errors import InputError
from pmafl.settings import load
from tests.runs.directories import Stop, contents, stop_after

SHUTDOWN = 0x8004587D  # FS_IOC_SHUTDOWN, which ext4 and xfs have for tests like this
WITHOUT_LOG = struct.pack("I", 2)


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A mounted image with `cut()`: all that is not on disk is lost, and what is comes back."""
    monkeypatch.setattr(os, "fsync", posix.fsync)  # the real one, which other tests do without
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    if os.geteuid() or not shutil.which("mkfs.ext4"):
        pytest.skip("mounting needs root and mkfs.ext4")
    subprocess.run(["truncate", "-s", "64M", image], check=True)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, place], check=False).returncode:
        pytest.skip("loop mounts are not allowed here")

    class Disk:
        path = place

        def shut_down(self):
            descriptor = os.open(place, os.O_RDONLY)
            try:
                fcntl.ioctl(descriptor, SHUTDOWN, WITHOUT_LOG)
            finally:
                os.close(descriptor)

        def come_back(self):
            subprocess.run(["umount", place], check=True)
            subprocess.run(["mount", "-o", "loop", image, place], check=True)

    yield Disk()
    subprocess.run(["umount", place], check=False)


def start_once(timer):
    """Starts a timer in the first round that is over, however long it took to get there."""

    def start(world, record):
        if timer.ident is None:
            timer.start()

    return start


@pytest.mark.heavy
def test_thirty_power_cuts_in_a_row_change_nothing(disk, tmp_path, tiny):
    settings = load("mnist", tiny | {"run.rounds": 1_000_000, "run.evaluate_every": 100})
    moments, cuts, directory = random.Random(0), 0, disk.path / "run"
    while cuts < 30:
        timer = threading.Timer(moments.uniform(0.0, 0.8), disk.shut_down)
        with pytest.raises(InputError):  # a run that ended would not have been cut often enough
            runs.run(directory, settings, [start_once(timer)], again=True)
        timer.join()
        disk.come_back()
        cuts += 1
    last = len(runs.read_records(directory)) + 20
    for where in (directory, tmp_path / "whole"):
        with pytest.raises(Stop):
            runs.run(where, settings, [stop_after(last)], again=True)
    assert last > 20  # some rounds were saved
    assert contents(directory) == contents(tmp_path / "whole")
