"""Data sets of other libraries become arrays; those that are not installed are not asked for."""

import subprocess
import sys

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


def test_partitions_of_flwr_datasets_are_clients():
    pytest.importorskip("flwr_datasets", reason="pip install 'pmafl[datasets]'")
    from flwr_datasets.partitioner import IidPartitioner, NaturalIdPartitioner

    people = NaturalIdPartitioner(partition_by="client")
    people.dataset = hugging_face()
    assert len(read(people).client_names) == 4
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
