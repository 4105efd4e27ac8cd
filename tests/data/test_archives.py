"""Archives are unpacked in memory and within limits; nothing in them can leave its place."""

import gzip
import io
import tarfile
import zipfile

import numpy as np
import pytest

from pmafl.data import archives
from pmafl.data.archives import Unusable, unpacked


def tarball(members, mode="w:gz"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for entry, content in members:
            archive.addfile(entry, io.BytesIO(content) if content is not None else None)
    return buffer.getvalue()


def regular(name, content):
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    return entry, content


def link(name, target, kind=tarfile.SYMTYPE):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry, None


def wheel(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_only_base_names_count():
    files = {"../../etc/passwd": b"a", "/absolute/b": b"b", "inside/": b""}
    members = [regular(name, content) for name, content in files.items() if content]
    assert list(unpacked("a.tgz", tarball(members))) == [("passwd", b"a"), ("b", b"b")]
    assert list(unpacked("a.whl", wheel(files))) == [("passwd", b"a"), ("b", b"b")]


def test_links_and_devices_are_passed_over():
    members = [
        link("a", "/etc/passwd"),
        link("b", "nothing", tarfile.LNKTYPE),
        link("c", "c", tarfile.LNKTYPE),
        link("d", "", tarfile.FIFOTYPE),
        link("e", "", tarfile.CHRTYPE),
        regular("f", b"content"),
    ]
    assert list(unpacked("a.tgz", tarball(members))) == [("f", b"content")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tgz", tarball([regular("zeros", bytes(2_000_000))])),
        ("a.tar", tarball([regular("zeros", bytes(2_000_000))], "w")),
        ("a.tar", tarball([regular(f"zeros{i}", bytes(600_000)) for i in range(2)], "w")),
        ("a.whl", wheel({"zeros": bytes(2_000_000)})),
        ("a.whl", wheel({f"zeros{i}": bytes(600_000) for i in range(2)})),
        ("a.tar.gz", gzip.compress(bytes(2_000_000))),
    ],
)
def test_what_unpacks_to_too_much_is_refused(name, content, monkeypatch):
    monkeypatch.setattr(archives, "LARGEST_BYTES", 1_000_000)
    with pytest.raises(Unusable, match="unpacks to more than 1 MB"):
        list(unpacked(name, content))


def test_a_size_that_the_archive_only_claims_is_refused_before_it_is_read(monkeypatch):
    entry = tarfile.TarInfo("a")
    entry.size = 10**12
    with pytest.raises(Unusable, match="unpacks to more than 1000 MB"):
        list(unpacked("a.tar", entry.tobuf() + bytes(1024)))


def test_too_many_members_are_refused(monkeypatch):
    monkeypatch.setattr(archives, "MOST_MEMBERS", 10)
    files = {f"f{i}": b"x" for i in range(11)}
    with pytest.raises(Unusable, match="holds more than 10 files"):
        list(unpacked("a.tgz", tarball([regular(*item) for item in files.items()])))
    with pytest.raises(Unusable, match="holds more than 10 files"):
        list(unpacked("a.whl", wheel(files)))


@pytest.mark.parametrize("count", [300, pytest.param(4000, marks=pytest.mark.heavy)])
def test_damaged_archives_are_unpacked_or_refused_in_one_line(count):
    rng, refused = np.random.default_rng(count), 0
    members = [regular("a", b"some content" * 20), link("b", "a"), regular("c" * 150, b"x")]
    originals = {
        "a.tgz": tarball(members),
        "a.tar": tarball(members, "w"),
        "a.whl": wheel({"a": b"some content" * 20, "b": b"x"}),
    }
    for index in range(count):
        name = list(originals)[index % len(originals)]
        content = bytearray(originals[name])
        for _ in range(rng.integers(1, 6)):
            at, length = int(rng.integers(len(content))), int(rng.integers(1, 9))
            content[at : at + length] = rng.bytes(length if rng.random() < 0.8 else 0)
        try:
            list(unpacked(name, bytes(content)))
        except Unusable as error:
            refused += 1
            assert str(error).isprintable()
    assert refused > count / 5
