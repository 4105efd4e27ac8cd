"""A user's own arrays are taken as they are, or refused in one line that says what is wrong with them."""

import numpy as np
import pytest

from pmafl.data import load
from pmafl.data.own import from_arrays
from pmafl.errors import InputError


def arrays(**changes):
    rng = np.random.default_rng(0)
    plain = {
        "x": rng.normal(2, 3, (60, 4)),
        "y": np.arange(60) % 3,
        "x_test": rng.normal(size=(9, 4)),
        "y_test": np.arange(9) % 3,
    }
    return {name: value for name, value in (plain | changes).items() if value is not None}


def own(**changes):
    return from_arrays("own.npz", arrays(**changes), "here")


def test_an_npz_file_is_loaded(tmp_path):
    np.savez(tmp_path / "own.npz", **arrays())
    dataset = load(str(tmp_path / "own.npz"))
    assert (dataset.train_samples, dataset.test_samples, dataset.classes) == (60, 9, 3)
    assert dataset.x_train.dtype == np.float32
    assert load("own.npz", directory=str(tmp_path)).source == str(tmp_path / "own.npz")


def test_standardised_inputs_have_mean_0_and_deviation_1():
    dataset = own()
    inputs = dataset.scaled(dataset.x_train)
    assert np.abs(inputs.mean(axis=0)).max() < 1e-6
    assert np.abs(inputs.std(axis=0) - 1).max() < 1e-6
    assert (dataset.scaled(dataset.x_train, "unit") == dataset.x_train).all()


def test_images_are_standardised_by_channel_and_bytes_in_units_of_255():
    x = np.random.default_rng(1).integers(0, 256, (60, 3, 5, 5)).astype(np.uint8)
    dataset = own(x=x, x_test=x[:9])
    assert dataset.mean.shape == (3,)
    inputs = dataset.scaled(dataset.x_train)
    assert inputs.dtype == np.float32
    assert np.abs(inputs.mean(axis=(0, 2, 3))).max() < 1e-5
    assert np.abs(inputs.std(axis=(0, 2, 3)) - 1).max() < 1e-5
    assert dataset.scaled(dataset.x_train, "unit").max() <= 1


def test_a_constant_feature_stays_finite():
    dataset = own(x=np.full((60, 4), 0.1), x_test=np.ones((9, 4)))
    assert np.abs(dataset.scaled(dataset.x_test)).max() < 1


def test_without_a_test_set_every_fifth_sample_of_each_class_becomes_one():
    x = np.arange(60.0)[:, None]
    dataset = own(x=x, y=np.repeat([0, 1, 2], 20), x_test=None, y_test=None)
    expected = [1, 6, 11, 16, 21, 26, 31, 36, 41, 46, 51, 56]
    assert dataset.x_test.ravel().tolist() == expected
    assert sorted([*dataset.x_train.ravel(), *expected]) == list(range(60))
    assert np.bincount(dataset.y_test).tolist() == [4, 4, 4]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"x": None}, "needs arrays named x and y"),
        ({"z": 1}, "got x, y, x_test, y_test, z"),
        ({"y_test": None}, "x_test and y_test must come together"),
        ({"x": np.zeros((60, 28, 28))}, r"x has shape \(60, 28, 28\); must be \(N, features\)"),
        ({"x": [[1.0, 2.0], [3.0]]}, "not arrays of numbers"),
        ({"x": np.zeros((60, 0))}, "x has shape"),
        ({"x": np.full((60, 4), "a")}, "must be numbers"),
        ({"x": np.where(np.arange(240).reshape(60, 4) == 70, np.nan, 0)}, "x: sample 17 is not finite"),
        ({"x": np.full((60, 4), 1e300)}, "x: sample 0 is not finite"),
        ({"x_test": np.full((9, 4), np.inf)}, "x_test: sample 0 is not finite"),
        ({"x_test": np.zeros((9, 5))}, "must be alike"),
        ({"x_test": np.zeros((9, 4), np.uint8)}, "must be alike"),
        ({"y": np.arange(59) % 3}, "x has 60 samples, but 59 labels"),
        ({"y": np.arange(59) % 3, "x_test": None, "y_test": None}, "x has 60 samples, but y has 59 labels"),
        ({"y": np.zeros((60, 3))}, "y is float64 of shape"),
        ({"y": np.full(60, 0.5)}, "must be a whole number"),
        ({"y": np.full(60, np.nan)}, "must be a whole number"),
        ({"y": np.arange(60) % 3 - 1}, "must be a whole number 0, 1, 2"),
        ({"y": np.full(60, "cat")}, "must be a whole number"),
        ({"y": np.arange(60) % 3 * 2}, "no training sample has label 1, but one has 2"),
        ({"y": np.arange(60) % 3 * 10**15}, "no training sample has label 1"),
        ({"y_test": np.arange(9) % 2}, "class 2 is missing in y_test"),
        ({"y_test": np.arange(9) % 4}, "class 3 is missing in y;"),
        (
            {"y": np.array([2] + [0, 1] * 29 + [0]), "x_test": None, "y_test": None},
            "class 2 has only one sample",
        ),
    ],
)
def test_what_is_wrong_is_told_in_one_line(changes, complaint):
    with pytest.raises(InputError, match=complaint) as error:
        own(**changes)
    assert "\n" not in str(error.value)
    assert "own.npz" in str(error.value)


def test_one_devices_part_may_lack_classes_but_has_no_others():
    arrays = {"x": np.zeros((4, 3)), "y": [1, 1, 3, 3]}
    assert from_arrays("mine", arrays, "here", classes=5).classes == 5
    with pytest.raises(InputError, match="has label 3; must be 0 to 2"):
        from_arrays("mine", arrays, "here", classes=3)
