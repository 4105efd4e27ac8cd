"""Data sets by name, file and function; the real ones where they have been fetched."""

import sys

import numpy as np
import pytest

from pmafl.data import KNOWN, load
from pmafl.data.fetch import cache_directory
from pmafl.errors import InputError

FIRST_LABELS = {"mnist": [5, 0, 4, 1, 9], "fashion-mnist": [9, 0, 0, 3, 0], "cifar10": [6, 9, 9, 4, 1]}


@pytest.mark.parametrize("name", FIRST_LABELS)
def test_the_real_data_is_what_the_table_says(name, monkeypatch):
    monkeypatch.undo()  # the user's own cache
    known = KNOWN[name]
    if not all((cache_directory() / name / file).is_file() for file in known.checksums):
        pytest.skip(f"not fetched: run pmafl data {name}")
    dataset = load(name)
    assert dataset.x_train.shape == (known.train_samples, *known.input_shape)
    assert dataset.x_test.shape == (known.test_samples, *known.input_shape)
    assert dataset.x_train.dtype == np.uint8
    assert dataset.y_train[:5].tolist() == FIRST_LABELS[name]
    assert tuple(np.bincount(dataset.y_train)) == known.train_class_counts
    assert tuple(np.bincount(dataset.y_test)) == known.test_class_counts
    histograms = [np.bincount(dataset.x_train[:, c].ravel(), minlength=256) for c in range(len(known.mean))]
    levels = np.arange(256) / 255
    mean = [np.average(levels, weights=h) for h in histograms]
    std = [np.sqrt(np.average((levels - m) ** 2, weights=h)) for m, h in zip(mean, histograms, strict=True)]
    assert np.abs(dataset.mean - mean).max() < 1e-7
    assert np.abs(dataset.std - std).max() < 1e-7


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Makes a module of the user's that can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(code):
        (tmp_path / "users_data.py").write_text(code)
        return "users_data:make"

    yield make
    sys.modules.pop("users_data", None)


def test_a_function_by_module_path_gives_a_data_set(module):
    code = "import numpy as np\ndef make(): return {'x': np.eye(8), 'y': [0, 1] * 4}"
    dataset = load(module(code))
    assert (dataset.train_samples, dataset.test_samples, dataset.input_shape) == (6, 2, (8,))


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("def make(): return 3", "needs arrays named x and y, .* got int"),
        ("def make(): return 1 / 0", "raised ZeroDivisionError: division by zero"),
        ("make = 3", "is a int; it must be a function"),
    ],
)
def test_a_function_that_gives_no_data_is_told_in_one_line(code, complaint, module):
    with pytest.raises(InputError, match=complaint):
        load(module(code))


def test_a_file_that_is_no_npz_is_told_in_one_line(tmp_path):
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04cut")
    np.savez(tmp_path / "objects.npz", x=np.array([{}]), y=[0])
    for name, reason in (
        ("text.npz", r"not a readable \.npz file of plain arrays"),
        ("cut.npz", r"not a readable \.npz file of plain arrays"),
        ("objects.npz", r"holds object; must be plain numbers; words are stored by astype\(str\)"),
    ):
        with pytest.raises(InputError, match=reason) as error:
            load(str(tmp_path / name))
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load("nowhere.npz")


def test_an_unknown_name_lists_what_there_is_and_guesses():
    with pytest.raises(InputError, match=r"there is no such data set; did you mean 'mnist'\?"):
        load("mnits")
