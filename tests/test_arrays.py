"""Files of arrays that nobody has vouched for are read within limits, or refused in one line."""

import io
import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pmafl.arrays import Unreadable, read_npy, read_npz
from pmafl.data import load
from pmafl.errors import InputError
from pmafl.wireless.cell import load_trace


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def npy_header(shape, descr="<f8"):
    """A .npy file that claims a shape and holds eight bytes."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue() + bytes(8)


def npz(path, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(6, dtype=">i2"),
        np.array(3.5),
        np.zeros((0, 4), np.uint8),
        np.array([["a", "bc"]]),
    ],
    ids=["float", "Fortran order", "big-endian", "scalar", "empty", "text"],
)
def test_what_numpy_writes_is_read_back(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", a=array, b=array)
    for found in (read_npy(tmp_path / "a.npy"), *read_npz(tmp_path / "a.npz").values()):
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)
        assert found.flags.writeable


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a readable .npy file"),
        (b"PK\3\4 misnamed", "not a readable .npy file"),
        (npy(np.arange(5.0))[:-1], "damaged or incomplete"),
        (npy(np.arange(5.0)) + b"more", "bytes left over"),
        (npy(np.array([{}]), allow_pickle=True), "holds object; must be plain numbers"),
        (npy(np.zeros(3, [("a", "f8")])), "must be plain numbers"),
        (npy(np.zeros(3, "S0").astype("V0")), "must be plain numbers"),
        (npy_header((10**14,)), r"needs 8e\+05 GB of memory, and the limit is 4"),
        (npy_header((10**30, 10**30)), "and the limit is 4"),
        (npy_header((10**8,)), "claims float64 of shape .* but holds 8; it is damaged"),
        (npy_header((-1,)), r"claims a shape of \(-1,\)"),
        (npy_header((1,) * 100), "not a readable .npy file"),
        (b"\x93NUMPY\3\0" + npy_header((1,))[8:], "version 3.0"),
        (b"\x93NUMPY\1\0" + struct.pack("<H", 9000) + b"(" * 9000, "not a readable .npy file"),
    ],
)
def test_a_wrong_npy_file_is_one_line(tmp_path, content, reason):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(Unreadable, match=reason) as error:
        read_npy(tmp_path / "a.npy")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"x.npy": npy_header((10**8,))}, "it is damaged"),
        ({"x.npy": npy(np.array([{}]), allow_pickle=True)}, "holds object"),
        ({"x.npy": pickle.dumps({})}, "not a readable .npz file"),
        ({"x": npy(np.arange(3))}, "holds 'x', which is not an array"),
        ({"x\n.txt": b""}, r"holds 'x\\n.txt'"),
    ],
)
def test_a_wrong_npz_file_is_one_line(tmp_path, members, reason):
    with pytest.raises(Unreadable, match=reason) as error:
        read_npz(npz(tmp_path / "a.npz", members))
    assert "\n" not in str(error.value)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_array_that_is_there_twice_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for _ in range(2):
            archive.writestr("x.npy", npy(np.arange(3)))
    with pytest.raises(Unreadable, match="two arrays named 'x'"):
        read_npz(tmp_path / "a.npz")


def test_an_encrypted_archive_is_refused(tmp_path):
    content = bytearray(npz(tmp_path / "a.npz", {"x.npy": npy(np.arange(3))}).read_bytes())
    content[6] |= 1  # the flag in front of the member, and the one in the directory
    content[content.index(b"PK\1\2") + 8] |= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(Unreadable, match="is encrypted"):
        read_npz(tmp_path / "a.npz")


def test_an_array_named_as_an_archive_and_the_other_way_round(tmp_path):
    (tmp_path / "a.npz").write_bytes(npy(np.arange(3)))
    with pytest.raises(Unreadable, match=r"not a readable \.npz file"):
        read_npz(tmp_path / "a.npz")
    with pytest.raises(Unreadable, match=r"not a readable \.npy file"):
        read_npy(npz(tmp_path / "a.npy", {"x.npy": npy(np.arange(3))}))


def test_what_unpacks_to_more_than_the_limit_is_refused_unless_the_user_raises_it(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(400_000))
    assert (tmp_path / "a.npz").stat().st_size < 10_000
    monkeypatch.setenv("PMAFL_MAX_GB", "0.003")
    with pytest.raises(Unreadable, match=r"needs 0.0032 GB .* limit is 0.003; .* PMAFL_MAX_GB"):
        read_npz(tmp_path / "a.npz")
    monkeypatch.setenv("PMAFL_MAX_GB", "0.004")
    assert read_npz(tmp_path / "a.npz")["x"].size == 400_000


def test_the_limit_counts_all_arrays_together(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(300_000), y=np.zeros(300_000))
    monkeypatch.setenv("PMAFL_MAX_GB", "0.003")
    with pytest.raises(Unreadable, match="PMAFL_MAX_GB"):
        read_npz(tmp_path / "a.npz")


def test_a_directory_that_lies_about_sizes_does_not_get_past_the_limit(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros(400_000))
    content = bytearray(path.read_bytes())
    entry = content.index(b"PK\1\2")
    content[entry + 24 : entry + 28] = struct.pack("<I", 200)  # the size once unpacked
    path.write_bytes(content)
    monkeypatch.setenv("PMAFL_MAX_GB", "0.003")
    with pytest.raises(Unreadable):
        read_npz(path)


@pytest.mark.parametrize("text", ["much", "-1", "0", "nan", "inf"])
def test_a_limit_that_is_no_size_is_bad_input(tmp_path, monkeypatch, text):
    np.save(tmp_path / "a.npy", np.zeros(3))
    monkeypatch.setenv("PMAFL_MAX_GB", text)
    with pytest.raises(InputError, match=r"PMAFL_MAX_GB = .*gigabytes greater than 0"):
        read_npy(tmp_path / "a.npy")


def test_only_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    for path in (tmp_path / "pipe.npy", tmp_path, Path("/dev/zero")):
        with pytest.raises(Unreadable, match="is not a file"):
            read_npy(path)
    for path in (tmp_path / "none.npy", tmp_path / "no\0name.npy", tmp_path / ("x" * 5000)):
        with pytest.raises(Unreadable, match="cannot be read"):
            read_npy(path)


def mutated(content, rng):
    """The bytes with a few of them changed, removed, repeated or filled with large values."""
    content = bytearray(content)
    for _ in range(rng.integers(1, 6)):
        at = int(rng.integers(0, len(content) + 1))
        length = int(rng.integers(1, 9))
        match rng.integers(5):
            case 0:
                content[at : at + length] = rng.bytes(length)
            case 1:
                del content[at : at + length]
            case 2:
                content[at:at] = content[at : at + length]
            case 3:
                content[at : at + length] = b"\xff" * length
            case _:
                del content[at:]
    return bytes(content)


def seeds(folder):
    """A small data set and a small trace, stored in every way."""
    rng = np.random.default_rng(1)
    arrays = {"x": rng.normal(size=(12, 2)).astype(np.float32), "y": np.arange(12) % 2}
    np.savez(folder / "stored.npz", **arrays)
    np.savez_compressed(folder / "packed.npz", **arrays)
    np.save(folder / "trace.npy", rng.exponential(1e-8, (2, 3)))
    np.savetxt(folder / "trace.csv", rng.exponential(1e-8, (2, 3)), delimiter=",")
    return [path.read_bytes() for path in sorted(folder.iterdir())], [
        p.suffix for p in sorted(folder.iterdir())
    ]


@pytest.mark.parametrize("count", [400, pytest.param(4000, marks=pytest.mark.heavy)])
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path, count):
    contents, suffixes = seeds(tmp_path)
    rng, refused = np.random.default_rng(count), 0
    for index in range(count):
        which = index % len(contents)
        path = tmp_path / f"fuzzed{suffixes[which]}"
        path.write_bytes(mutated(contents[which], rng))
        try:
            load(str(path)) if path.suffix == ".npz" else load_trace(str(path), 2, 3)
        except InputError as error:
            refused += 1
            assert "\n" not in str(error)
            assert str(error).isprintable()
    assert refused > count / 2
