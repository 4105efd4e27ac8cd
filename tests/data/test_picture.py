"""The picture of who holds what can be drawn for few and many devices."""

import numpy as np
import pytest

from pmafl.data import KNOWN, split
from pmafl.data.picture import draw_partition, save_picture
from pmafl.errors import InputError


def picture(devices):
    known = KNOWN["mnist"]
    train_labels, test_labels = known.labels()
    partition = split(train_labels, test_labels, devices, np.random.default_rng(0))
    return draw_partition(partition, train_labels, known.class_names, "who holds what")


@pytest.mark.parametrize("devices", [5, 100, 3000])
def test_few_and_many_devices_are_drawn(devices, tmp_path):
    save_picture(picture(devices), tmp_path / "held.png")
    assert (tmp_path / "held.png").stat().st_size > 5000


@pytest.mark.parametrize("name", ["held.xyz", "nowhere/held.png"])
def test_a_file_that_cannot_be_written_is_told_in_one_line(name, tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        save_picture(picture(5), tmp_path / name)
    assert list(tmp_path.iterdir()) == []
