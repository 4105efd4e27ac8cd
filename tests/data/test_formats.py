"""The formats of the known data sets, on small examples made here."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from pmafl.data import formats
from pmafl.data.formats import cifar_batches_from_sheets, read_cifar, read_idx


def test_an_idx_file_gives_its_array_ready_to_be_changed():
    content = bytes([0, 0, 8, 3]) + np.array([2, 3, 4], ">u4").tobytes() + bytes(range(24))
    array = read_idx(content)
    assert array.tolist() == np.arange(24).reshape(2, 3, 4).tolist()
    assert array.flags.writeable


def test_cifar_records_are_a_label_and_three_colour_planes():
    records = np.random.default_rng(0).integers(0, 256, (6, 3073)).astype(np.uint8)
    images, labels = read_cifar([records[:4].tobytes(), records[4:].tobytes()])
    assert labels.tolist() == records[:, 0].tolist()
    assert images.shape == (6, 3, 32, 32)
    assert images[5, 2, 31, 31] == records[5, -1]
    assert images.flags.c_contiguous
    assert images.flags.writeable


@pytest.fixture
def sheets(monkeypatch):
    """Six sheets of 4 images each, and the records they stand for."""
    monkeypatch.setattr(formats, "SHEET_SHAPE", (4, 1024, 3))
    rng = np.random.default_rng(1)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    records = {name: rng.integers(0, 256, (4, 3073)).astype(np.uint8) for name in names}
    files = {}
    for name, batch in records.items():
        batch[:, 0] %= 10
        buffer = io.BytesIO()
        Image.fromarray(batch[:, 1:].reshape(4, 3, 1024).transpose(0, 2, 1).copy()).save(buffer, "PNG")
        files[f"{name}.png"] = buffer.getvalue()
    train = np.concatenate([records[name][:, 0] for name in names[:5]])
    files["train_lables.json"] = json.dumps(train.tolist()).encode()
    files["test_lables.json"] = json.dumps(records["test_batch"][:, 0].tolist()).encode()
    return files, records


def test_png_sheets_become_the_binary_batches(sheets):
    files, records = sheets
    expected = {f"{name}.bin": batch.tobytes() for name, batch in records.items()}
    assert dict(cifar_batches_from_sheets(files)) == expected


def test_a_sheet_of_another_shape_is_refused(sheets, monkeypatch):
    monkeypatch.setattr(formats, "SHEET_SHAPE", (4, 512, 3))
    with pytest.raises(ValueError, match=r"data_batch_1.png has shape"):
        list(cifar_batches_from_sheets(sheets[0]))
