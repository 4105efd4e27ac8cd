"""A user's own files: tables with a header, and folders with a file per client."""

import numpy as np
import pytest

from pmafl.data import Reading, load
from pmafl.errors import InputError

TABLE = """ax, ay, person, activity
0.5, 1, ann, walk
1.5, 2, ann, run
2.5, 3, ann, walk
3.5, 4, bob, run
4.5, 5, bob, walk
5.5, 6, bob, run
"""
NAMED = Reading(target="activity", client="person")


def table(folder, text=TABLE, name="own.csv"):
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_table_has_its_target_and_its_clients_in_columns_by_name(tmp_path):
    dataset = load(table(tmp_path), reading=NAMED)
    assert dataset.class_names == ("run", "walk")
    assert dataset.client_names == ("ann", "bob")
    assert dataset.input_shape == (2,)
    assert sorted([*dataset.x_train[:, 0], *dataset.x_test[:, 0]]) == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert np.bincount(dataset.client_test).tolist() == [1, 1]


def test_a_column_called_label_is_the_target_and_numbers_with_fractions_are_values(tmp_path):
    dataset = load(table(tmp_path, "a,label\n" + "".join(f"{i},{i / 2}\n" for i in range(10))))
    assert dataset.regression
    assert dataset.client_train is None
    whole = load(table(tmp_path, "a,label\n" + "".join(f"{i},{i % 2}\n" for i in range(10))))
    assert whole.classes == 2


@pytest.mark.parametrize(
    ("text", "reading", "complaint"),
    [
        (TABLE, Reading(), r"has no column 'label' \(data.target names another one\); it has ax, ay, person"),
        (TABLE, Reading(target="activity", client="user"), r"has no column 'user' \(data.client names"),
        (
            TABLE,
            Reading(target="activity"),
            "sample 1 has 'ann' in column 'person'; features must be numbers",
        ),
        (TABLE.replace("2.5", "nan"), NAMED, "x: sample 2 is not finite"),
        (TABLE + "1, 2\n", NAMED, "sample 7 has 2 values; the header has 4"),
        ("", NAMED, "must have a header"),
        ("a,a\n1,2\n", NAMED, "must have a header with a name for each column, all different"),
        ("y,client\n1,2\n", Reading(), "there is nothing to learn from"),
        ("a,a ,y\n1,2,0\n", Reading(), "a name for each column, all different"),
        ("a,label\n1,0\n\n2, \n", Reading(), "line 4 has nothing in column 'label'; fill it, or drop it"),
        ("a,y,client\n1,0,\n", Reading(), "line 2 has nothing in column 'client'"),
    ],
)
def test_what_is_wrong_with_a_table_is_told_in_one_line(tmp_path, text, reading, complaint):
    with pytest.raises(InputError, match=complaint) as error:
        load(table(tmp_path, text), reading=reading)
    assert "\n" not in str(error.value)
    assert "own.csv" in str(error.value)


@pytest.mark.parametrize("names", [{"target": "client"}, {"target": "x"}, {"client": "y"}, {"client": "x"}])
def test_one_name_for_two_things_is_refused(names):
    with pytest.raises(InputError, match=r"data.target = .*, data.client = .*: must differ from each other"):
        Reading(**names)


def test_a_column_of_clients_is_not_the_target_whatever_it_is_called(tmp_path):
    dataset = load(
        table(tmp_path, "a,label,target\n" + "1,ann,0\n2,ann,1\n" * 3), reading=Reading(client="label")
    )
    assert (dataset.client_names, dataset.classes) == (("ann",), 2)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b'"unclosed\n'])
def test_bytes_that_are_no_table_are_told_in_one_line(tmp_path, content):
    (tmp_path / "own.csv").write_bytes(content)
    with pytest.raises(InputError, match=r"own.csv': .*"):
        load(str(tmp_path / "own.csv"))


@pytest.fixture
def folder(tmp_path):
    """Three clients with 4, 5 and 6 samples, each with a test set."""
    (tmp_path / "people").mkdir()
    for count, name in enumerate(("ann", "bob", "cid"), start=4):
        x = np.random.default_rng(count).normal(size=(count, 3))
        test = {"x_test": x[:2] + 1, "y_test": [0, 1]}
        np.savez(tmp_path / "people" / f"{name}.npz", x=x, y=np.arange(count) % 2, **test)
    return tmp_path / "people"


def test_a_folder_has_a_client_per_file(folder, tmp_path):
    dataset = load("people/", directory=str(tmp_path))
    assert dataset.client_names == ("ann", "bob", "cid")
    assert np.bincount(dataset.client_train).tolist() == [4, 5, 6]
    assert np.bincount(dataset.client_test).tolist() == [2, 2, 2]
    with np.load(folder / "bob.npz") as bob:
        assert np.allclose(dataset.x_train[dataset.client_train == 1], bob["x"])


def test_labels_of_a_folder_may_be_of_any_type(folder):
    x = np.ones((2, 3))
    np.savez(folder / "dan.npz", x=x, y=np.array([0, 1], np.uint8), x_test=x, y_test=np.array([0.0, 1.0]))
    assert load(f"{folder}/").y_train[-2:].tolist() == [0, 1]


def test_tables_may_be_the_files_of_a_folder_too(tmp_path):
    for name in ("ann", "bob"):
        table(tmp_path, "a,label\n1,0\n2,1\n3,0\n4,1\n", f"{name}.csv")
    assert load(f"{tmp_path}/").client_names == ("ann", "bob")


def test_columns_of_tables_are_joined_by_name(tmp_path):
    table(tmp_path, "a,b,label\n" + "1,20,0\n1,20,1\n" * 2, "ann.csv")
    table(tmp_path, "label,b,a\n" + "0,20,1\n1,20,1\n" * 2, "bob.csv")
    assert (load(f"{tmp_path}/").x_train == [1, 20]).all()


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ("a,c,label", "bob.csv has no column 'b', but files before it have one"),
        ("a,b,c,label", "bob.csv has a column 'c', but files before it have none"),
    ],
)
def test_tables_with_other_columns_are_refused(tmp_path, header, complaint):
    table(tmp_path, "a,b,label\n1,2,0\n", "ann.csv")
    table(tmp_path, f"{header}\n{'1,' * header.count(',')}0\n", "bob.csv")
    with pytest.raises(InputError, match=complaint):
        load(f"{tmp_path}/")


def test_lengths_that_differ_in_files_are_refused_though_they_fit_in_all(tmp_path):
    np.savez(tmp_path / "ann.npz", x=np.ones((4, 3)), y=[0, 1])
    np.savez(tmp_path / "bob.npz", x=np.ones((2, 3)), y=[0, 1, 0, 1])
    with pytest.raises(InputError, match=r"ann.npz has 4 samples in x, but 2 entries in y"):
        load(f"{tmp_path}/")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda f: (f / "notes.txt").write_text("hello"), "notes.txt is neither a .npz or .csv file"),
        (
            lambda f: np.savez(f / "dan.npz", x=[[1, 2, 3]], y=[0]),
            "dan.npz has x, y, but files before it have",
        ),
        (
            lambda f: np.savez(f / "dan.npz", x=[[1]], y=[0], x_test=[[1]], y_test=[0]),
            r"dan.npz has x of \(1,\) a sample, but files before it of \(3,\)",
        ),
        (
            lambda f: np.savez(f / "aaa.npz", x=[[1]], y=[0], client=[0]),
            "aaa.npz has 'client', but in a folder",
        ),
        (
            lambda f: [p.unlink() for p in f.iterdir()],
            "is empty; it must hold a .npz or .csv file per client",
        ),
        (lambda f: (f / "dan.npz").write_bytes(b"no"), "dan.npz not a readable .npz"),
        (
            lambda f: np.savez(f / "dan.npz", x=np.ones((1, 3)), y=["a"], x_test=[[1, 2, 3]], y_test=["a"]),
            "dan.npz has words in y, but files before it have numbers",
        ),
        (
            lambda f: np.savez(
                f / "dan.npz", x=np.ones((2, 3), np.uint8), y=[0, 1], x_test=np.ones((1, 3)), y_test=[0]
            ),
            "dan.npz has bytes in x, but files before it have numbers",
        ),
        (
            lambda f: np.savez(
                f / "dan.npz", x=np.ones((2, 3)), y=[0, 1], x_test=np.zeros((0, 3)), y_test=np.zeros(0, int)
            ),
            "client 'dan' has no test samples",
        ),
        (
            lambda f: np.savez(f / "dan.npz", x=np.ones((0, 3)), y=[], x_test=np.ones((0, 3)), y_test=[]),
            "dan.npz has no samples; add some, or remove the file",
        ),
        (
            lambda f: (f / "ann.csv").write_text("a,b,c,label\n1,2,3,0\n4,5,6,1\n"),
            "ann.npz would be client 'ann', but so is a file before it; rename one",
        ),
    ],
)
def test_what_is_wrong_with_a_folder_is_told_in_one_line(folder, change, complaint):
    change(folder)
    with pytest.raises(InputError, match=complaint) as error:
        load(f"{folder}/")
    assert "\n" not in str(error.value)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(
        InputError, match=r"nowhere': is neither a .npz or .csv file nor a folder that is there"
    ):
        load(f"{tmp_path}/nowhere/")
