import subprocess
import sys

import pytest

from pmafl.errors import InputError
from pmafl.learning.architecture import cnn, mlp, shared_parameters


def test_the_networks_have_the_papers_parameter_counts():
    assert mlp().parameters == 550_346
    assert cnn().parameters == 307_842


def test_the_shared_layers_hold_what_the_paper_uploads():
    assert shared_parameters(mlp(), 2) == 533_248
    assert shared_parameters(cnn(), 4) / 307_842 == pytest.approx(0.997, abs=1e-3)
    assert shared_parameters(mlp(), 0) == 0
    assert shared_parameters(mlp(), 4) == 550_346


def test_multiply_adds_leave_biases_out():
    assert cnn().multiply_adds == 14_203_520
    assert mlp().multiply_adds == 550_346 - (512 + 256 + 64 + 10)


def test_a_network_fits_other_data():
    assert mlp((20,), 3).parameters == 20 * 512 + 512 + 512 * 256 + 256 + 256 * 64 + 64 + 64 * 3 + 3
    assert cnn((1, 28, 28)).layers[2].inputs == 64 * 4 * 4


@pytest.mark.parametrize("shape", [(784,), (3, 15, 32)])
def test_a_convolution_refuses_what_is_no_image(shape):
    with pytest.raises(InputError, match="16 x 16"):
        cnn(shape)


def test_too_many_shared_layers_are_refused():
    with pytest.raises(InputError, match="must be 0 to 4"):
        shared_parameters(mlp(), 5)


def test_costs_are_known_without_torch():
    code = (
        "import sys; from pmafl.learning.workload import workload; from pmafl.settings import load; "
        "workload(load('cifar10').learning); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
