"""A user's own arrays are taken as they are, or refused in one line that says what is wrong with them."""

import numpy as np
import pytest

from pmafl.data import Reading, load
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
        ({"x": np.zeros(60)}, r"x has shape \(60,\); must be \(N, features\)"),
        ({"x": np.zeros((60, 28, 28))}, r"of x is float32 \(28, 28\), one of x_test is float32 \(4,\)"),
        ({"x": [[1.0, 2.0], [3.0]]}, "not arrays of numbers"),
        ({"x": np.zeros((60, 0))}, "x has shape"),
        ({"x": np.full((60, 4), "a")}, "must be numbers"),
        ({"x": np.where(np.arange(240).reshape(60, 4) == 70, np.nan, 0)}, "x: sample 17 is not finite"),
        ({"x": np.full((60, 4), 1e300)}, "x: sample 0 is not finite"),
        ({"x_test": np.full((9, 4), np.inf)}, "x_test: sample 0 is not finite"),
        ({"x_test": np.zeros((9, 5))}, "must be alike"),
        ({"x_test": np.zeros((9, 4), np.uint8)}, "must be alike"),
        ({"y": np.arange(59) % 3}, "x has 60 samples, but y has 59 labels"),
        ({"y": np.arange(59) % 3, "x_test": None, "y_test": None}, "x has 60 samples, but y has 59 labels"),
        ({"y": np.zeros((60, 3), int)}, "y is int64 of shape"),
        ({"y": np.zeros((60, 3))}, "y has 3 values per sample, y_test has 1; must be alike"),
        ({"y": np.zeros((60, 3, 2))}, "y is float64 of shape"),
        ({"y": np.full(60, np.nan)}, "y: sample 0 is not finite"),
        ({"y_test": np.full(9, 0.5)}, "y_test is float64 .* must be a whole number"),
        ({"y": np.arange(60) % 3 - 1}, "y: sample 0 has label -1; must be a whole number 0, 1, 2"),
        ({"y": np.arange(60, dtype=np.uint64) % 3 + 2**63}, "y: sample 0 has label 9223372036854775808;"),
        ({"y": (np.arange(60) % 3) * 1e300}, r"y: sample 1 has label 1e\+300; must be a whole number"),
        ({"y_test": np.arange(9) % 3 - 1}, "y_test: sample 0 has label -1; must be a whole number"),
        ({"y": np.eye(3)[np.arange(60) % 3]}, "a single 1 per sample, a column per class; must be"),
        ({"y": np.eye(3, dtype=int)[np.arange(60) % 3]}, "a column per class; must be the number"),
        ({"y": np.full(60, "cat")}, "y_test is int64 .* must be words, as y is"),
        ({"y": np.full(60, "cat"), "y_test": np.full(9, "dog")}, "class 'dog' is missing in y"),
        ({"client": np.zeros(60, int)}, "client_test must say whose x_test is"),
        ({"client_test": np.zeros(9, int)}, "client_test must say whose x_test is where client says"),
        ({"client": np.zeros(60, int), "client_test": np.ones(9, int)}, "client '1' has test but no train"),
        ({"client": np.arange(60) % 2, "client_test": np.ones(9, int)}, "client '0' has no test samples"),
        ({"client": np.zeros(59, int), "client_test": np.zeros(9, int)}, "but client has 59 entries"),
        ({"client": np.zeros(60, int), "client_test": np.zeros(8, int)}, "but client_test has 8 entries"),
        ({"client": np.zeros(60), "client_test": np.zeros(9, int)}, "client is float64 of shape"),
        (
            {"client": np.array([7] + [3] * 59), "x_test": None, "y_test": None},
            "client '7' has only one sample",
        ),
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


def read(given, **reading):
    return from_arrays("own.npz", given, "here", reading=Reading(**reading))


def of_shape(shape, dtype=np.float32, samples=20):
    x = np.random.default_rng(2).integers(0, 200, (samples, *shape)).astype(dtype)
    return {"x": x, "y": np.arange(samples) % 2}


@pytest.mark.parametrize(
    ("shape", "dtype", "layout", "becomes", "statistics", "said"),
    [
        ((7, 3), np.float32, "auto", (7, 3), 3, "7 points in time with 3 features"),
        ((7, 3), np.float32, "NCT", (7, 3), 7, ""),
        ((7, 3), np.float32, "NHW", (1, 7, 3), 1, ""),
        ((7, 3), np.uint8, "auto", (1, 7, 3), 1, "grey images"),
        ((7, 3), np.uint8, "NTF", (7, 3), 3, ""),
        ((8, 8, 3), np.uint8, "auto", (3, 8, 8), 3, "channels last"),
        ((8, 8, 3), np.uint8, "NCHW", (8, 8, 3), 8, ""),
        ((3, 8, 8), np.uint8, "auto", (3, 8, 8), 3, ""),
        ((16, 16, 2), np.float32, "auto", (16, 16, 2), 16, ""),
        ((16, 16, 2), np.float32, "NHWC", (2, 16, 16), 2, ""),
        ((2, 3, 4, 5), np.float32, "auto", (2, 3, 4, 5), 2, ""),
        ((6,), np.float32, "auto", (6,), 6, ""),
    ],
)
def test_samples_of_any_shape_are_taken_and_what_is_recognised_is_said(
    shape, dtype, layout, becomes, statistics, said
):
    dataset = read(of_shape(shape, dtype), layout=layout)
    assert dataset.input_shape == becomes
    assert dataset.mean.shape == (statistics,)
    assert said in " ".join(dataset.notes)
    assert bool(dataset.notes) == bool(said)
    inputs = dataset.scaled(dataset.x_train)
    others = tuple(axis for axis in range(inputs.ndim) if axis != dataset.channel_axis)
    assert np.abs(inputs.mean(axis=others)).max() < 1e-4


def test_channels_last_become_first_without_changing_a_picture():
    given = of_shape((8, 8, 3), np.uint8) | {
        "x_test": np.zeros((4, 8, 8, 3), np.uint8),
        "y_test": [0, 1, 0, 1],
    }
    dataset = read(given)
    assert (dataset.x_train[5, 2] == given["x"][5, :, :, 2]).all()
    assert dataset.x_test.shape == (4, 3, 8, 8)


def test_bytes_are_token_ids_only_where_the_settings_say_so():
    dataset = read(of_shape((9,), np.uint8))
    assert dataset.vocabulary() == 0
    assert dataset.vocabulary("tokens") == int(max(dataset.x_train.max(), dataset.x_test.max())) + 1
    assert dataset.scaled(dataset.x_train[:2], "tokens").tolist() == dataset.x_train[:2].tolist()


def test_a_layout_of_another_number_of_axes_is_refused():
    with pytest.raises(InputError, match=r"x has shape \(20, 8, 8, 3\), but data.layout = 'NTF' has 3 axes"):
        read(of_shape((8, 8, 3)), layout="NTF")


def test_whole_numbers_may_be_token_ids_and_negative_ones_are_measurements():
    dataset = read(of_shape((9,), np.int64))
    assert dataset.vocabulary() == max(dataset.x_train.max(), dataset.x_test.max()) + 1
    assert "token ids" in " ".join(dataset.notes)
    assert dataset.scaled(dataset.x_train[:2], "tokens").tolist() == dataset.x_train[:2].tolist()
    assert read(of_shape((9,), np.float64)).vocabulary("tokens") == 0
    given = of_shape((9,), np.int64)
    given["x"][3, 3] = -1
    assert read(given).x_train.dtype == np.float32


def test_values_are_a_regression_and_whole_numbers_are_where_the_settings_say_so():
    x = np.random.default_rng(3).normal(size=(20, 4))
    dataset = read({"x": x, "y": x[:, 0]})
    assert dataset.regression
    assert (dataset.outputs, dataset.classes, dataset.y_train.shape) == (1, 0, (16, 1))
    assert read({"x": x, "y": x[:, :3]}).outputs == 3
    assert not read({"x": x, "y": np.arange(20) % 2.0}).regression
    assert read({"x": x, "y": np.arange(20)}, task="regression").y_train.dtype == np.float32
    with pytest.raises(InputError, match=r"y is <U1 of shape .* must be numbers"):
        read({"x": x, "y": np.full(20, "a")}, task="regression")
    with pytest.raises(InputError, match="has 1 values per sample; the run needs 2"):
        from_arrays("mine", {"x": x, "y": x[:, 0]}, "here", classes=2)


def test_words_as_labels_are_classes_in_the_order_of_the_alphabet():
    dataset = read(of_shape((4,)) | {"y": np.array(["walk", "run"] * 10)})
    assert dataset.class_names == ("run", "walk")
    assert dataset.y_train[:2].tolist() == [1, 0]


def test_a_client_is_tested_on_every_fifth_of_its_own_samples():
    x, client = np.arange(60.0)[:, None], np.repeat(["ann", "bob", "cid"], [30, 20, 10])
    dataset = read({"x": x, "y": np.arange(60) % 2, "client": client})
    assert dataset.client_names == ("ann", "bob", "cid")
    assert np.bincount(dataset.client_test).tolist() == [6, 4, 2]
    for samples, owner in ((dataset.x_train, dataset.client_train), (dataset.x_test, dataset.client_test)):
        assert (client[samples.ravel().astype(int)] == np.array(dataset.client_names)[owner]).all()


def test_arrays_may_have_other_names():
    given = of_shape((4,))
    given |= {"activity": given.pop("y"), "user": np.arange(20) % 2}
    dataset = read(given, target="activity", client="user")
    assert (dataset.classes, len(dataset.client_names)) == (2, 2)
    with pytest.raises(InputError, match=r"has no array 'person', as data.client says"):
        read(of_shape((4,)), client="person")
    with pytest.raises(InputError, match=r"needs arrays named x and y.*got x, activity, user"):
        read(given)
