"""Files count by checksum, arrive whole or not at all, and every failure is one line that says what to do."""

import errno
import gzip
import hashlib
import io
import os
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pmafl.data import archives, fetch, sources
from pmafl.data.fetch import files_of
from pmafl.data.known import CIFAR10, Mirror
from pmafl.errors import InputError

NOWHERE = Mirror(("http://127.0.0.1:9/train-images-idx3-ubyte.gz",), 1)


def put(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def left_in(cache):
    return sorted(path.name for path in cache.iterdir()) if cache.exists() else []


def test_a_named_directory_comes_before_the_cache(known, files, cache, tmp_path):
    put(tmp_path / "mine", files)
    put(cache, files)
    assert files_of(known, str(tmp_path / "mine")) == (files, str(tmp_path / "mine"))


def test_the_environment_names_a_directory_too(known, files, tmp_path, monkeypatch):
    put(tmp_path / "mine", files)
    monkeypatch.setenv("PMAFL_DATA", str(tmp_path / "mine"))
    assert files_of(known)[1] == str(tmp_path / "mine")


def test_packed_files_and_folders_of_other_programs_are_found(known, files, tmp_path):
    put(tmp_path / "mine" / "MNIST" / "raw", {f"{n}.gz": gzip.compress(c) for n, c in files.items()})
    assert files_of(known, str(tmp_path / "mine"))[0] == files


def test_files_of_another_data_set_with_the_same_names_are_passed_over(known, files, tmp_path):
    put(tmp_path / "mine" / "FashionMNIST" / "raw", {name: content + b"x" for name, content in files.items()})
    put(tmp_path / "mine" / "MNIST" / "raw", files)
    assert files_of(known, str(tmp_path / "mine"))[0] == files


def test_cifar10_is_found_in_its_archive_and_a_damaged_archive_is_passed_over(tmp_path):
    batch = b"\1" * 3073
    md5 = dict.fromkeys(CIFAR10.checksums, hashlib.md5(batch).hexdigest())
    known = replace(CIFAR10, checksums=md5, sources=())
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name in md5:
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = len(batch)
            tar.addfile(entry, io.BytesIO(batch))
    put(tmp_path, {"cifar-10-binary.tar.gz": archive.getvalue()})
    assert files_of(known, str(tmp_path))[0] == dict.fromkeys(md5, batch)
    put(tmp_path, {"cifar-10-binary.tar.gz": archive.getvalue()[:50]})
    with pytest.raises(InputError, match=r"cifar-10-binary.tar.gz is damaged or incomplete"):
        files_of(known, str(tmp_path))


def test_a_named_directory_that_does_not_exist_is_an_error(known):
    with pytest.raises(InputError, match=r"data.directory = '/no/such/place': no such directory"):
        files_of(known, "/no/such/place")


def test_a_mirror_fills_the_cache_and_the_cache_is_enough_afterwards(known, files, cache, mirror):
    assert files_of(replace(known, sources=(mirror.source,)))[0] == files
    assert left_in(cache) == sorted(files)
    assert files_of(known) == (files, str(cache))


def test_a_source_out_of_reach_is_passed_over(known, files, mirror):
    assert files_of(replace(known, sources=(NOWHERE, mirror.source)))[0] == files


def test_nothing_reachable_is_one_line_that_says_what_to_put_where(known, files):
    with pytest.raises(InputError) as error:
        files_of(replace(known, sources=(NOWHERE,)))
    line = str(error.value)
    assert "\n" not in line
    for part in ("127.0.0.1:9", "Connection refused", "PMAFL_DATA", "data.directory", *files):
        assert part in line


def test_a_download_that_breaks_off_leaves_nothing(known, cache, mirror):
    mirror.held_back = 1
    with pytest.raises(InputError, match="broke off after"):
        files_of(replace(known, sources=(mirror.source,)))
    assert left_in(cache) == []


def test_a_truncated_gzip_file_fails_the_checksum_and_leaves_nothing(known, cache, mirror):
    mirror.content = {name: content[:-20] for name, content in mirror.content.items()}
    with pytest.raises(InputError, match="wrong checksum"):
        files_of(replace(known, sources=(mirror.source,)))
    assert left_in(cache) == []


def test_a_wrong_checksum_in_the_last_file_leaves_nothing(known, files, cache, mirror):
    last = list(files)[-1]
    mirror.content[f"{last}.gz"] = gzip.compress(files[last][:-1] + b"\xff")
    with pytest.raises(InputError, match=f"{last} has a wrong checksum"):
        files_of(replace(known, sources=(mirror.source,)))
    assert left_in(cache) == []


def test_a_damaged_cache_is_fetched_again(known, files, cache, mirror):
    put(cache, {**files, "train-images-idx3-ubyte": b"damaged"})
    assert files_of(replace(known, sources=(mirror.source,)))[0] == files
    assert (cache / "train-images-idx3-ubyte").read_bytes() == files["train-images-idx3-ubyte"]


def test_a_damaged_cache_that_cannot_be_fetched_again_is_named(known, files, cache):
    put(cache, {**files, "train-images-idx3-ubyte": b"damaged"})
    with pytest.raises(InputError, match=f"{cache}: train-images-idx3-ubyte has a wrong checksum"):
        files_of(known)


def test_an_interrupted_fetch_leaves_nothing_and_the_next_one_succeeds(
    known, files, cache, mirror, monkeypatch
):
    source = replace(known, sources=(mirror.source,))
    with monkeypatch.context() as patch:
        original, calls = sources.download, []

        def interrupted(*arguments):
            calls.append(arguments)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return original(*arguments)

        patch.setattr(sources, "download", interrupted)
        with pytest.raises(KeyboardInterrupt):
            files_of(source)
    assert left_in(cache) == []
    assert files_of(source)[0] == files


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_line_and_leaves_nothing(code, known, cache, mirror, monkeypatch):
    original, written = Path.write_bytes, []

    def full(path, content):
        written.append(path)
        if len(written) == 3:
            original(path, content[:10])
            raise OSError(code, os.strerror(code))
        return original(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(
        InputError, match=f"cannot write to the cache {cache} .{os.strerror(code)}.; make room"
    ):
        files_of(replace(known, sources=(mirror.source,)))
    assert left_in(cache) == []


def test_a_read_only_cache_is_noticed_before_anything_is_downloaded(known, mirror, monkeypatch):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(fetch.tempfile, "TemporaryDirectory", read_only)
    monkeypatch.setattr(sources, "download", lambda *_: pytest.fail("downloaded in vain"))
    with pytest.raises(InputError, match=r"Read-only file system.*XDG_CACHE_HOME"):
        files_of(replace(known, sources=(mirror.source,)))


def test_a_cache_below_a_file_is_one_line(known, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match="cannot write to the cache"):
        files_of(replace(known, sources=(NOWHERE,)))


def test_what_a_killed_process_left_is_removed_but_not_what_another_one_is_using(known, files, cache, mirror):
    put(cache / ".fetch-old", {"half": b""})
    put(cache / ".fetch-new", {"half": b""})
    long_ago = time.time() - 2 * fetch.STALE_S
    os.utime(cache / ".fetch-old", (long_ago, long_ago))
    files_of(replace(known, sources=(mirror.source,)))
    assert left_in(cache) == sorted([*files, ".fetch-new"])


@pytest.mark.parametrize("part", ["headers", "content"])
def test_a_mirror_that_drips_bytes_is_given_up_and_the_next_source_is_taken(
    part, known, files, cache, mirror, tmp_path, monkeypatch
):
    monkeypatch.setattr(sources, "PACE_S", 0.5)
    mirror.dripping = part
    with pytest.raises(InputError, match="is slower than 50 kB/s"):
        files_of(replace(known, sources=(mirror.source,)))
    assert left_in(cache) == []


def test_a_mirror_that_keeps_the_pace_but_not_the_time_is_given_up(known, cache, mirror, monkeypatch):
    monkeypatch.setattr(sources, "START_S", 0.3)
    monkeypatch.setattr(sources, "SLOWEST_BYTES_PER_S", 1e9)
    mirror.dripping = "content"
    with pytest.raises(InputError, match="took too long in all"):
        files_of(replace(known, sources=(mirror.source,)))
    assert left_in(cache) == []


@pytest.mark.parametrize("told", [True, False], ids=["as it says", "without saying so"])
def test_a_mirror_that_sends_too_much_is_given_up(told, known, cache, mirror):
    first = next(iter(mirror.content))
    mirror.content[first] = os.urandom(3_000_000)
    mirror.held_back = 0 if told else 10**12
    with pytest.raises(InputError, match=r"sends more than the 2.5 MB expected"):
        files_of(replace(known, sources=(mirror.source,)))
    assert left_in(cache) == []


def test_a_file_that_unpacks_to_too_much_is_given_up(known, cache, mirror, monkeypatch):
    monkeypatch.setattr(archives, "LARGEST_BYTES", 10_000_000)
    first = next(iter(mirror.content))
    mirror.content[first] = gzip.compress(bytes(20_000_000))
    with pytest.raises(InputError, match="unpacks to more than 10 MB"):
        files_of(replace(known, sources=(mirror.source,)))
    assert left_in(cache) == []


def test_what_bears_the_name_of_a_file_but_is_none_is_told_in_one_line(known, files, tmp_path):
    put(tmp_path / "mine", files)
    (tmp_path / "mine" / "train-images-idx3-ubyte").unlink()
    os.mkfifo(tmp_path / "mine" / "train-images-idx3-ubyte")
    with pytest.raises(InputError, match="train-images-idx3-ubyte is not a file of at most 1000 MB"):
        files_of(known, str(tmp_path / "mine"))
