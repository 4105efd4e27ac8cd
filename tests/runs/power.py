"""A power supply for `pmafl.files`: it can be cut after any call, and then loses what was not synced.

Stands in for the module `os` there, keeps what a disk would certainly hold (content as of the last sync of a
file, names as of the last sync of their folder), and at a cut lets chance decide about everything else.
"""

import os
import random
import shutil
from pathlib import Path


class PowerCut(BaseException):
    pass


class Inode:
    """A file on the disk: what it holds now, and what it certainly holds after a cut."""

    def __init__(self):
        self.now, self.durable = b"", b""


class Power:
    """Everything below `root` is on the disk; what was there before is durable."""

    def __init__(self, root, cut_after=None, seed=0):
        self.root, self.calls, self.cut_after = Path(root), 0, cut_after
        self.chance = random.Random(seed)
        self.open_files = {}  # descriptor -> path, and inode or None for folders
        self.entries, self.pending, self.inodes = {}, {}, {}
        for folder, _, names in os.walk(self.root):
            self.entries[folder] = {}
            for name in names:
                inode = self.inodes[os.path.join(folder, name)] = Inode()
                inode.now = inode.durable = (Path(folder) / name).read_bytes()
                self.entries[folder][name] = inode

    def __getattr__(self, name):
        return getattr(os, name)

    def _tick(self, path):
        """Count a call that changes the disk; the power fails before the one after the last."""
        if not str(path).startswith(str(self.root)):
            return False
        if self.cut_after is not None and self.calls >= self.cut_after:
            raise PowerCut
        self.calls += 1
        return True

    def _later(self, path, inode):
        """A name will mean this inode (None: nothing) once its folder is synced."""
        folder, name = os.path.split(str(path))
        self.pending.setdefault(folder, []).append((name, inode))
        if inode is None:
            self.inodes.pop(str(path), None)
        else:
            self.inodes[str(path)] = inode

    def open(self, path, flags, mode=0o777):
        writes = flags & (os.O_WRONLY | os.O_RDWR)
        ours = self._tick(path) if writes else flags & os.O_DIRECTORY
        existed = os.path.lexists(path)
        descriptor = os.open(path, flags, mode)
        if ours:
            if writes and not existed:
                self._later(path, Inode())
            self.open_files[descriptor] = (str(path), self.inodes.get(str(path)))
        return descriptor

    def close(self, descriptor):
        self.open_files.pop(descriptor, None)
        os.close(descriptor)

    def write(self, descriptor, content):
        path, inode = self.open_files.get(descriptor, ("", None))
        ours, at = self._tick(path), os.lseek(descriptor, 0, os.SEEK_CUR)
        count = os.write(descriptor, content)
        if ours:
            inode.now = inode.now[:at] + bytes(content[:count]) + inode.now[at + count :]
        return count

    def ftruncate(self, descriptor, length):
        path, inode = self.open_files.get(descriptor, ("", None))
        if self._tick(path):
            inode.now = inode.now[:length]
        os.ftruncate(descriptor, length)

    def fsync(self, descriptor):
        path, inode = self.open_files.get(descriptor, ("", None))
        if self._tick(path):
            if inode is not None:
                inode.durable = inode.now
            else:
                for name, meant in self.pending.pop(path, []):
                    _set(self.entries.setdefault(path, {}), name, meant)

    def replace(self, old, new):
        ours = self._tick(new)
        os.replace(old, new)
        if ours:
            inode = self.inodes[str(old)]
            self._later(old, None)
            self._later(new, inode)

    def unlink(self, path):
        if not os.path.lexists(path):
            raise FileNotFoundError(path)
        ours = self._tick(path)
        os.unlink(path)
        if ours:
            self._later(path, None)

    def mkdir(self, path):
        ours = self._tick(path)
        os.mkdir(path)
        if ours:
            self.entries.setdefault(str(path), {})

    def come_back(self):
        """Put on the real disk what the cut has left."""
        folders = {}
        for folder, names in self.entries.items():
            left = dict(names)
            changes = self.pending.get(folder, [])
            if self.chance.random() < 0.5:
                changes = changes[: self.chance.randint(0, len(changes))]
            else:
                changes = [change for change in changes if self.chance.random() < 0.5]
            for name, inode in changes:
                _set(left, name, inode)
            folders[folder] = left
        shutil.rmtree(self.root)
        for folder in sorted(folders):
            os.makedirs(folder, exist_ok=True)
            for name, inode in folders[folder].items():
                (Path(folder) / name).write_bytes(self._content_of(inode))

    def _content_of(self, inode):
        """What was synced, or a later content in part, with zeros where blocks were never written."""
        if inode.now == inode.durable or self.chance.random() < 0.3:
            return inode.durable
        pairs = enumerate(zip(inode.now, inode.durable, strict=False))
        shorter = min(len(inode.now), len(inode.durable))
        untouched = next((at for at, (one, other) in pairs if one != other), shorter)
        some = inode.now[: self.chance.randint(untouched, len(inode.now))]
        if self.chance.random() < 0.3:
            some += bytes(self.chance.randint(1, 50)) + b"\n"
        return some


def _set(names, name, inode):
    if inode is None:
        names.pop(name, None)
    else:
        names[name] = inode
