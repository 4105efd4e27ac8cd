import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from pmafl.learning import precision
from pmafl.learning.precision import WideProducts, arithmetic, products
from tests.learning.test_engine import engine_for, relative_error, samples_for

ROUNDING = 2**-8  # of bf16, relative: half of the last of its 8 bits
ROUNDINGS = 0.02  # relative, of a gradient's norm: two orders of summation round a few numbers differently


class NarrowProducts(TorchDispatchMode):
    """Notes the products of bf16 operands that reach torch."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        narrow = any(isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16 for value in args)
        if narrow and any(word in str(func) for word in ("mm", "matmul", "linear", "conv", "dot", "mv")):
            self.seen.add(str(func))
        return func(*args, **(kwargs or {}))


def operands(*shapes):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=generator).bfloat16() for shape in shapes]


@pytest.mark.parametrize(
    ("product", "shapes"),
    [
        (torch.mm, [(30, 70), (70, 20)]),
        (torch.addmm, [(20,), (30, 70), (70, 20)]),
        (torch.bmm, [(4, 30, 70), (4, 70, 20)]),
        (torch.baddbmm, [(4, 30, 20), (4, 30, 70), (4, 70, 20)]),
        (functional.linear, [(30, 70), (20, 70), (20,)]),
        (functional.conv1d, [(5, 6, 30), (8, 6, 3), (8,)]),
        (functional.conv2d, [(5, 6, 12, 12), (8, 6, 3, 3), (8,)]),
    ],
)
def test_a_wide_product_is_the_exact_one_of_rounded_operands_rounded_once(product, shapes):
    factors = operands(*shapes)
    with WideProducts():
        result = product(*factors)
    exact = product(*(factor.double() for factor in factors))
    assert result.dtype == torch.bfloat16
    # Sums that cancel keep the error that float32 has on what was summed.
    torch.testing.assert_close(result.double(), exact, rtol=1.01 * ROUNDING, atol=1e-4)


def test_gradients_of_a_wide_convolution_are_rounded_once_too():
    x, weight, slope = operands((5, 6, 12, 12), (8, 6, 3, 3), (5, 8, 10, 10))
    x.requires_grad_(), weight.requires_grad_()
    with WideProducts():
        found = torch.autograd.grad(functional.conv2d(x, weight), (x, weight), slope)
    exact = torch.autograd.grad(functional.conv2d(x.double(), weight.double()), (x, weight), slope.double())
    for one, truth in zip(found, exact, strict=True):
        assert one.dtype == torch.bfloat16
        torch.testing.assert_close(one.double(), truth.double(), rtol=2.02 * ROUNDING, atol=1e-4)


def test_what_is_not_in_bf16_stays_as_it_is():
    a, b = (operand.float() for operand in operands((30, 70), (70, 20)))
    whole = torch.arange(6).view(2, 3)
    own = torch.mm(a, b)
    with WideProducts():
        assert torch.equal(torch.mm(a, b), own)
        assert torch.mm(whole, whole.t()).dtype == torch.int64


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_an_engine_gives_the_same_with_instructions_for_bf16_and_without(model, monkeypatch):
    engine, samples = engine_for(model, precision="bf16"), samples_for(model, 12)
    weights = engine.model.flat.clone()
    found = {}
    for there in (True, False):
        monkeypatch.setattr(precision, "_has_instructions", lambda there=there: there)
        found[there] = engine.gradient(weights, samples)
    (own_loss, own), (wide_loss, wide) = found[True], found[False]
    assert wide_loss == pytest.approx(own_loss, rel=ROUNDINGS)
    assert relative_error(wide, own) < ROUNDINGS


@pytest.mark.parametrize("model", ["mlp", "cnn"])
@pytest.mark.parametrize("part", ["all", "extractor", "predictor"])
@pytest.mark.parametrize("batch_size", [0, 5])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_no_narrow_product_of_an_engine_reaches_torch(model, part, batch_size, momentum, monkeypatch):
    monkeypatch.setattr(precision, "_has_instructions", lambda: False)
    engine = engine_for(model, precision="bf16", batch_size=batch_size, momentum=momentum)
    with NarrowProducts() as reached:
        engine.train(engine.model.flat.clone(), samples_for(model, 10), np.random.default_rng(5), 2, part)
    assert reached.seen == set()


def test_products_are_wide_only_in_bf16_and_without_instructions(monkeypatch):
    values = torch.zeros(1)
    monkeypatch.setattr(precision, "_has_instructions", lambda: False)
    assert isinstance(products(torch.bfloat16, values), WideProducts)
    assert not isinstance(products(torch.float32, values), WideProducts)
    monkeypatch.setattr(precision, "_has_instructions", lambda: True)
    assert not isinstance(products(torch.bfloat16, values), WideProducts)


def test_networks_beyond_dense_layers_train_in_wide_products():
    with torch.random.fork_rng():
        torch.manual_seed(6)
        network = nn.Sequential(nn.Conv1d(6, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(224, 10))
    x = torch.randn(20, 6, 30, generator=torch.Generator().manual_seed(4))
    truth = torch.autograd.grad(network(x).square().mean(), list(network.parameters()))
    with WideProducts():
        with arithmetic(torch.bfloat16, x):
            scores = network(x)
        found = torch.autograd.grad(scores.float().square().mean(), list(network.parameters()))
    for one, exact in zip(found, truth, strict=True):
        assert one.dtype == torch.float32
        assert relative_error(one, exact) < 0.1
