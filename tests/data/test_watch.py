"""The smartwatch data: cut as the table says, and read by an unpickler that knows nothing but arrays."""

import io
import pickle

import numpy as np
import pytest
from numpy.lib import format as npy

from pmafl.data import KNOWN, cache_directory, load
from pmafl.data.archives import Unusable
from pmafl.data.fetch import complete, files_of
from pmafl.data.watch import ARMS, EXERCISES, LENGTHS, read_watch, unpickled, window_counts
from pmafl.errors import InputError


def stored(content, protocol=2):
    """A file as numpy saves an object."""
    file = io.BytesIO()
    npy.write_array_header_1_0(file, {"descr": "|O", "fortran_order": False, "shape": ()})
    pickle.dump(np.array(content, dtype=object), file, protocol)
    return file.getvalue()


def recordings():
    """Made-up recordings of the real lengths, each value the place of its row in the recording."""
    shuffled = np.random.default_rng(0).permutation(LENGTHS.size)
    watch, exercise = np.unravel_index(shuffled, LENGTHS.shape)
    rows = [np.arange(length)[:, None] + np.zeros(6) for length in LENGTHS[watch, exercise]]
    return {
        "X": [np.asfortranarray(x) for x in rows],
        "y": exercise,
        "subject": watch // 2 + 1,
        "side": (watch % 2).astype(float),
        "y_labels": [name[:3] for name in EXERCISES],
    }


def test_windows_are_cut_as_the_table_says_and_none_reaches_over_the_border():
    x_train, y_train, x_test, y_test, owners = read_watch(stored(recordings()))
    for part, labels, owner, counts in zip(
        (x_train, x_test), (y_train, y_test), owners, window_counts(), strict=True
    ):
        assert part.shape == (counts.sum(), 100, 6)
        found = np.zeros_like(counts)
        np.add.at(found, (owner, labels), 1)
        assert (found == counts).all()
        assert (np.diff(part[:, :, 0], axis=1) == 1).all()
    border = LENGTHS * 7 // 10
    assert (x_train[:, -1, 0] < border[owners[0], y_train]).all()
    assert (x_test[:, 0, 0] >= border[owners[1], y_test]).all()
    assert (x_test[:, -1, 0] < LENGTHS[owners[1], y_test]).all()


def test_the_real_file_is_what_the_table_says(monkeypatch):
    monkeypatch.undo()  # the user's own cache
    known = KNOWN["watch"]
    if not all((cache_directory() / "watch" / file).is_file() for file in known.checksums):
        pytest.skip("not fetched: run pmafl data watch")
    dataset = load("watch")
    assert dataset.input_shape == known.input_shape
    assert tuple(np.bincount(dataset.y_train)) == known.train_class_counts
    assert tuple(np.bincount(dataset.y_test)) == known.test_class_counts
    assert np.abs(dataset.x_train.mean(axis=(0, 1), dtype=float) - known.mean).max() < 1e-7
    assert np.abs(dataset.x_train.std(axis=(0, 1), dtype=float) - known.std).max() < 1e-7
    assert len(dataset.client_names) == 10 * len(ARMS)


class Harmful:
    def __reduce__(self):
        return print, ("this must never be printed",)


class Named:
    pass


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(
    ("content", "name"),
    [({"X": Harmful()}, "print"), ({"X": Named()}, "Named"), ({"X": np.float64(1)}, "scalar")],
)
def test_a_pickle_that_names_anything_but_arrays_is_refused_and_nothing_runs(content, name, protocol, capsys):
    with pytest.raises(pickle.UnpicklingError, match=rf"it names [\w.]*{name}, which is no array"):
        unpickled(stored(content, protocol))
    assert "never" not in capsys.readouterr().out


@pytest.mark.parametrize("content", [["a", "list"], 3])
def test_only_a_dict_is_taken(content):
    with pytest.raises(pickle.UnpicklingError, match="holds no dict"):
        unpickled(stored(content))


def test_an_array_of_numbers_is_not_unpickled_at_all():
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    with pytest.raises(pickle.UnpicklingError, match="not one pickled object"):
        unpickled(file.getvalue())


def test_another_file_of_the_same_name_is_refused_before_it_is_opened(tmp_path, monkeypatch, capsys):
    content = stored({"X": Harmful()})
    with pytest.raises(Unusable, match=r"watch_dataset.npy has a wrong checksum"):
        complete(KNOWN["watch"], [("watch_dataset.npy", content)])
    (tmp_path / "watch_dataset.npy").write_bytes(content)
    monkeypatch.setattr(
        "pmafl.data.fetch.fetch", lambda known, folder, reasons: pytest.fail("; ".join(reasons))
    )
    with pytest.raises(pytest.fail.Exception, match="wrong checksum"):
        files_of(KNOWN["watch"], str(tmp_path))
    assert "never" not in capsys.readouterr().out


def test_an_object_array_in_an_npz_is_refused_in_one_line(tmp_path, capsys):
    np.savez(tmp_path / "own.npz", x=np.array([Harmful(), 1], dtype=object), y=[0, 1], allow_pickle=True)
    with pytest.raises(InputError, match=r"own.npz': array 'x' holds object; must be plain numbers") as error:
        load(str(tmp_path / "own.npz"))
    assert "\n" not in str(error.value)
    assert "never" not in capsys.readouterr().out
