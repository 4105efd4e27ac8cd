"""Data sets of other libraries become arrays; those that are not installed are not asked for."""

import subprocess
import sys
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from pmafl.data import Reading, from_arrays
from pmafl.errors import InputError

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
Y = np.arange(20) % 2
PAIRS = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))


class Rows(Dataset):
    """Samples by name."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def read(given, **reading):
    return from_arrays("own", given, "here", reading=Reading(**reading))


def test_a_torch_data_set_gives_its_pairs():
    dataset = read(PAIRS)
    assert (dataset.train_samples, dataset.test_samples, dataset.input_shape) == (16, 4, (3,))
    assert (read({"train": PAIRS, "test": PAIRS}).x_test == X).all()


def test_samples_by_name_have_target_and_client_in_columns():
    rows = [{"window": X[i], "activity": int(Y[i]), "person": f"p{i % 4}"} for i in range(20)]
    dataset = read(Rows(rows), target="activity", client="person")
    assert dataset.client_names == ("p0", "p1", "p2", "p3")
    assert dataset.input_shape == (3,)


def test_a_list_of_data_sets_has_a_client_each():
    dataset = read([PAIRS, Rows([(X[0], 0), (X[1], 1), (X[2], 0)])])
    assert np.bincount(np.concatenate([dataset.client_train, dataset.client_test])).tolist() == [20, 3]


def test_lists_may_be_the_parts_for_training_and_test():
    dataset = read({"train": [PAIRS, PAIRS], "test": [PAIRS, PAIRS]})
    assert dataset.client_names == ("0", "1")
    assert np.bincount(dataset.client_test).tolist() == [20, 20]


@pytest.mark.parametrize(
    "change", [lambda x: x.bfloat16(), lambda x: x.half(), lambda x: x.clone().requires_grad_()]
)
def test_tensors_that_numpy_does_not_take_are_samples_too(change):
    x = change(torch.from_numpy(X))
    expected = x.detach().float().numpy()
    for given in (TensorDataset(x, torch.from_numpy(Y)), {"x": x, "y": Y}):
        dataset = read(given)
        found = np.concatenate([dataset.x_train, dataset.x_test])
        assert found.dtype == np.float32
        assert (np.sort(found, axis=0) == np.sort(expected, axis=0)).all()


def test_a_column_of_clients_is_not_the_target_whatever_it_is_called():
    rows = [{"x": X[i], "label": f"p{i % 4}", "target": int(Y[i])} for i in range(20)]
    dataset = read(Rows(rows), client="label")
    assert (dataset.classes, len(dataset.client_names)) == (2, 4)


class Broken(Dataset):
    """Samples that cannot be read."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        raise RuntimeError("disk\nbroken")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (7, "needs arrays named x and y, a torch, Hugging Face or flwr data set, or a list of them; got int"),
        (Rows([]), "has no samples"),
        (Rows([X[0]]), "a sample is a ndarray; must be a pair"),
        (Rows([(X[0], 0), (X[0, :2], 1)]), r"samples have shapes \(2,\) and \(3,\); must be alike"),
        (Rows([{"x": X[0]}]), "has no column 'label'"),
        (Rows([{"label": 0}]), "has no column beside 'label'"),
        (Rows([{"x": X[0], "label": 0}, {"x": X[0]}]), "not every sample has 'label'"),
        (Rows([{"a": X[0], "b": 1.0, "label": 0}] * 4), "several columns for x, not all of them single"),
        (Rows([{"a": "word", "label": 0}] * 4), "samples are not numbers of one shape"),
        ({"train": PAIRS, "validation": PAIRS}, "has the parts train, validation; must be train, or"),
        (Broken(), r"raised RuntimeError: disk broken \(test_adapters.py:"),
        ([PAIRS, Broken()], "part 1: raised RuntimeError: disk broken"),
        (Rows([([[1.0], [2.0, 3.0]], 0)]), "'x' of its samples: raised ValueError: setting an array element"),
        ([PAIRS, TensorDataset(torch.zeros(4, 2), torch.zeros(4))], "its parts do not fit together"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(given, complaint):
    with pytest.raises(InputError, match=complaint) as error:
        read(given)
    assert "\n" not in str(error.value)


def hugging_face(start=0, stop=20):
    datasets = pytest.importorskip("datasets", reason="pip install 'pmafl[datasets]'")
    kinds = datasets.Features(
        {
            "x": datasets.Sequence(datasets.Value("float32")),
            "label": datasets.ClassLabel(names=["walk", "run"]),
            "client": datasets.Value("string"),
        }
    )
    rows = range(start, stop)
    columns = {
        "x": X[start:stop].tolist(),
        "label": Y[start:stop].tolist(),
        "client": [f"p{i % 4}" for i in rows],
    }
    return datasets.Dataset.from_dict(columns, features=kinds)


def test_a_hugging_face_data_set_gives_its_columns_and_the_names_of_its_classes():
    dataset = read(hugging_face())
    assert dataset.class_names == ("run", "walk")
    assert len(dataset.client_names) == 4
    found = np.concatenate([dataset.x_train, dataset.x_test])
    assert np.allclose(np.sort(found, axis=0), np.sort(X, axis=0))
    datasets = sys.modules["datasets"]
    parts = datasets.DatasetDict(train=hugging_face(), test=hugging_face(0, 8))
    assert read(parts).test_samples == 8


class Table:
    """What is asked of a Hugging Face data set, for where there is none installed."""

    def __init__(self, columns):
        self.columns = columns
        self.column_names, self.features = list(columns), dict.fromkeys(columns)

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name):
        return self.columns[name]

    def with_format(self, kind):
        return self

    def remove_columns(self, name):
        return Table({key: values for key, values in self.columns.items() if key != name})


class ByWriter:
    """What is asked of a partitioner of flwr-datasets that splits by a column of clients."""

    num_partitions = 2
    partition_id_to_natural_id: ClassVar = {0: "zoe", 1: "ann"}
    _partition_by = "writer"

    def load_partition(self, number):
        rows = slice(10 * number, 10 * number + 10)
        return Table({"a": X[rows, 0], "b": X[rows, 1], "writer": np.full(10, number), "label": Y[rows]})


def test_the_column_of_natural_partitions_names_clients_and_is_no_feature(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(Dataset=Table))
    dataset = read(ByWriter())
    assert dataset.client_names == ("ann", "zoe")
    assert dataset.input_shape == (2,)
    assert set(dataset.x_train[dataset.client_train == 1, 0]) <= set(X[:10, 0])
    assert read(ByWriter(), client="writer").client_names == ("ann", "zoe")


def test_columns_that_cannot_be_stacked_are_told_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(Dataset=Table))
    ragged = Table({"x": [[1.0], [2.0, 3.0]], "label": [0, 1]})
    with pytest.raises(InputError, match="samples are not numbers of one shape"):
        read(ragged)
    with pytest.raises(InputError, match="has no samples"):
        read(Table({"x": [], "label": []}))


def test_partitions_of_flwr_datasets_are_clients():
    pytest.importorskip("flwr_datasets", reason="pip install 'pmafl[datasets]'")
    from flwr_datasets.partitioner import IidPartitioner, NaturalIdPartitioner

    people = NaturalIdPartitioner(partition_by="client")
    people.dataset = hugging_face()
    assert read(people).client_names == ("p0", "p1", "p2", "p3")
    assert read(people).input_shape == (3,)
    partitioner = IidPartitioner(num_partitions=4)
    partitioner.dataset = hugging_face().remove_columns("client")
    dataset = read(partitioner)
    assert dataset.client_names == ("0", "1", "2", "3")
    assert np.bincount(dataset.client_train).tolist() == [4] * 4
    assert np.bincount(dataset.client_test).tolist() == [1] * 4


def test_none_of_the_libraries_is_imported_for_arrays():
    code = (
        "import sys, numpy as np; from pmafl.data import from_arrays; "
        "from_arrays('own', {'x': np.zeros((4, 2)), 'y': [0, 1, 0, 1]}, 'here'); "
        "print(sorted({'torch', 'datasets', 'flwr_datasets', 'pandas'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
