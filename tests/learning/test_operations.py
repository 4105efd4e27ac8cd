"""Multiply-adds against counts by hand: biases, activations, normalisation and pooling count nothing."""

from math import prod

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from pmafl.errors import InputError
from pmafl.learning.architecture import cnn, mlp
from pmafl.learning.model import as_module
from pmafl.learning.operations import forward_operations, training_operations
from pmafl.learning.workload import workload
from tests.learning import user_models
from tests.learning.synthetic import learning

USER = "tests.learning.user_models:"


def forward(module, *shape):
    return forward_operations(module, torch.zeros(1, *shape), "network")


def training(module, *shape):
    return training_operations(module, torch.zeros(1, *shape), "network")


def linear(inputs, outputs, positions=1):
    return inputs * outputs * positions


def recurrent(gates, inputs, units, steps):
    """Each gate sees the input and what was before."""
    return steps * gates * units * (inputs + units)


def encoder_layer(width, wide, steps):
    """Queries, keys, values; every step with every step, twice; the output; two layers on each step."""
    attention = linear(width, 3 * width, steps) + 2 * steps * steps * width + linear(width, width, steps)
    return attention + linear(width, wide, steps) + linear(wide, width, steps)


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.body = kind(28, 64, batch_first=True, **options)
        self.head = nn.Linear(64 * (1 + options.get("bidirectional", 0)), 10)

    def forward(self, x):
        return self.head(self.body(x)[0][:, -1])


@pytest.mark.parametrize(("kind", "gates"), [(nn.RNN, 1), (nn.GRU, 3), (nn.LSTM, 4)])
def test_a_recurrent_layer_is_counted_step_by_step(kind, gates):
    assert forward(Recurrent(kind), 28, 28) == recurrent(gates, 28, 64, 28) + 640


def test_an_lstm_of_64_units_on_28_steps_takes_660096():
    assert forward(Recurrent(nn.LSTM), 28, 28) == 660_096
    two = 2 * recurrent(4, 28, 64, 28) + 2 * recurrent(4, 128, 64, 28)
    assert forward(Recurrent(nn.LSTM, num_layers=2, bidirectional=True), 28, 28) == two + 1280


def test_a_transformer_encoder_is_counted_with_its_attention():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    assert forward(encoder, 16, 32) == 2 * encoder_layer(32, 64, 16)
    plain = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)
    assert forward(plain, 16, 32) == 2 * encoder_layer(32, 64, 16)


def test_the_papers_networks_have_the_counts_of_their_descriptions():
    assert forward(as_module(mlp()), 1, 28, 28) == mlp().multiply_adds == 549_504
    assert forward(as_module(cnn()), 3, 32, 32) == cnn().multiply_adds == 14_203_520
    assert training(as_module(mlp()), 1, 28, 28) == mlp().training_multiply_adds
    assert training(as_module(cnn()), 3, 32, 32) == cnn().training_multiply_adds


@pytest.mark.parametrize(
    ("module", "shape", "expected"),
    [
        (nn.Conv2d(8, 8, 3, groups=4, padding=1), (8, 6, 6), 36 * 8 * 2 * 9),
        (nn.Conv2d(8, 8, 3, groups=8, stride=2), (8, 7, 7), 9 * 8 * 9),
        (nn.ConvTranspose2d(8, 4, 3, stride=2), (8, 6, 6), 36 * 8 * 4 * 9),
        (nn.ConvTranspose1d(8, 4, 3, groups=2), (8, 6), 6 * 8 * 2 * 3),
        (nn.Conv3d(2, 3, 2), (2, 4, 4, 4), 27 * 3 * 2 * 8),
        (nn.Sequential(nn.Conv1d(6, 8, 5), nn.BatchNorm1d(8), nn.GELU()), (6, 100), 96 * 8 * 6 * 5),
        (
            nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 3), nn.Softmax(2), nn.Dropout()),
            (5, 8),
            linear(8, 3, 5),
        ),
        (nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.AvgPool2d(2)), (1, 8, 8), 36 * 36),
        (nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(1, 1, 1)), (1, 4, 4), 64),
    ],
)
def test_layers_of_other_kinds(module, shape, expected):
    assert forward(module, *shape) == expected


class Bilinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Bilinear(5, 5, 7)

    def forward(self, x):
        return self.layer(x, x)


class Words(nn.Module):
    """Token ids to classes, with the table of words used at both ends."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x):
        words = self.table(x)
        return self.attention(words, words, words)[0].mean(1) @ self.table.weight.t()


def test_embeddings_attention_and_tied_weights():
    assert forward(Bilinear(), 5) == 5 * 5 * 7
    attention = linear(16, 48, 12) + 2 * 12 * 12 * 16 + linear(16, 16, 12)
    ids = torch.ones(1, 12, dtype=torch.long)
    assert forward_operations(Words(), ids, "words") == attention + linear(16, 50)


def test_a_module_that_runs_twice_is_counted_twice():
    assert forward(user_models.tied((1, 28, 28), 10), 1, 28, 28) == 7840 + 2 * 100


def test_fast_paths_and_the_mode_of_the_module_change_nothing(monkeypatch):
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 1)
    networks = [(Recurrent(nn.LSTM), (28, 28)), (encoder, (16, 32)), (as_module(cnn()), (3, 32, 32))]
    expected = [forward(module, *shape) for module, shape in networks]
    before = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    for wanted in (True, False):
        torch.backends.mha.set_fastpath_enabled(wanted)
        torch._C._set_mkldnn_enabled(wanted)
        try:
            for module, _ in networks:
                module.train(wanted)
            assert [forward(module, *shape) for module, shape in networks] == expected
            assert all(module.training == wanted for module, _ in networks)
            assert torch.backends.mha.get_fastpath_enabled() == torch._C._get_mkldnn_enabled() == wanted
        finally:
            torch.backends.mha.set_fastpath_enabled(before[0])
            torch._C._set_mkldnn_enabled(before[1])


def test_training_counts_the_gradient_of_what_is_trained():
    chain = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 10))
    assert training(chain, 20) == 3 * (600 + 300) - 600  # nothing is derived by the inputs
    chain[0].requires_grad_(False)
    assert training(chain, 20) == 600 + 2 * 300  # nor by what is frozen
    frozen_top = nn.Sequential(nn.Linear(20, 30), nn.Linear(30, 10).requires_grad_(False))
    assert training(frozen_top, 20) == 2 * 600 + 2 * 300
    # Weights at every step, what was before at every step but the first, which has no gradient.
    lstm, before = recurrent(4, 28, 64, 28), 27 * 4 * 64 * 64
    assert training(Recurrent(nn.LSTM), 28, 28) == 2 * lstm + before + 3 * 640


class Spectrum(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x).abs()


class Function(nn.Module):
    """A function as a module, with modules that it may use."""

    def __init__(self, function, *members):
        super().__init__()
        self.function, self.members = function, nn.ModuleList(members)
        self.weights = nn.Parameter(torch.ones(16, 8))

    def forward(self, x):
        return self.function(self, x)


def spread_product(module, x):
    return (x[..., None] * module.weights).sum(2)


def test_a_product_by_broadcasting_counts_as_the_product_of_matrices_that_it_is():
    by_matrices = Function(lambda module, x: x @ module.weights)
    assert forward(Function(spread_product), 20, 16) == forward(by_matrices, 20, 16) == 20 * 16 * 8
    assert training(Function(spread_product), 20, 16) == training(by_matrices, 20, 16) == 2 * 20 * 16 * 8
    expanded = Function(lambda m, x: (x[..., None].expand(1, 20, 16, 8) * m.weights).sum(2))
    assert forward(expanded, 20, 16) == 20 * 16 * 8
    outer = Function(lambda m, x: torch.addcmul(m.weights, x[0, 0][:, None], m.weights[:1]))
    assert forward(outer, 20, 16) == 16 * 8


def test_a_matrix_that_is_spread_over_one_vector_counts_too():
    by_vector = Function(lambda m, x: (x[:, 0, :, None] * m.weights[None]).sum(1))
    assert forward(by_vector, 1, 16) == 16 * 8


def test_scaling_and_gates_cost_nothing():
    scaled = Function(lambda m, x: (x * m.weights[:, 0] * 3 * x.mean(1, keepdim=True)) @ m.weights)
    assert forward(scaled, 20, 16) == 20 * 16 * 8
    pooled = Function(lambda m, x: ((x @ m.weights) * torch.ones(8)).sum(1))  # its gradient is repeated
    assert training(pooled, 20, 16) == 2 * 20 * 16 * 8


def test_a_complex_product_takes_four_real_ones():
    spectral = Function(lambda m, x: (x.to(torch.complex64) @ m.weights.to(torch.complex64)).abs())
    assert forward(spectral, 20, 16) == 4 * 20 * 16 * 8
    assert training(spectral, 20, 16) == 2 * 4 * 20 * 16 * 8


class InNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weights):
        ctx.save_for_backward(x, weights)
        return torch.from_numpy(x.detach().numpy() @ weights.detach().numpy())

    @staticmethod
    def backward(ctx, gradient):
        x, weights = ctx.saved_tensors
        return gradient @ weights.t(), (x.transpose(1, 2) @ gradient).sum(0)


class GradientInNumpy(InNumpy):
    @staticmethod
    def forward(ctx, x, weights):
        ctx.save_for_backward(x, weights)
        return x @ weights

    @staticmethod
    def backward(ctx, gradient):
        x, weights = ctx.saved_tensors
        back = np.asarray(gradient) @ weights.detach().numpy().T
        return torch.from_numpy(back), (x.transpose(1, 2) @ gradient).sum(0)


def test_what_is_computed_in_numpy_is_an_error_not_a_small_number():
    module = nn.Sequential(Function(lambda m, x: InNumpy.apply(x, m.weights)), nn.Linear(8, 2))
    with pytest.raises(InputError, match=r"in numpy in module '0' \(Function\) .*; set learning\.operations"):
        forward(module, 20, 16)
    array = Function(lambda m, x: x @ torch.as_tensor(np.asarray(m.weights.detach())))
    with pytest.raises(InputError, match=r"in numpy in Function cannot be counted"):
        forward(array, 20, 16)
    trained = nn.Sequential(Function(lambda m, x: GradientInNumpy.apply(x, m.weights)), nn.Linear(8, 2))
    assert forward(trained, 20, 16) == 20 * 16 * 8 + 20 * 8 * 2
    with pytest.raises(InputError, match=r"in numpy in the gradient of module '0' \(Function\)"):
        training(trained, 20, 16)


STEPS = (16, 20)  # sixteen channels, twenty steps
PICTURE = (16, 8, 8)
BLOCK = (16, 4, 4, 4)
ACTIVATIONS = [
    nn.CELU(), nn.ELU(), nn.GELU(), nn.GELU("tanh"), nn.GLU(), nn.Hardshrink(), nn.Hardsigmoid(),
    nn.Hardswish(), nn.Hardswish(inplace=True), nn.Hardtanh(), nn.LeakyReLU(), nn.LogSigmoid(),
    nn.LogSoftmax(1), nn.Mish(), nn.Mish(inplace=True), nn.PReLU(16), nn.RReLU(), nn.ReLU(),
    nn.ReLU(inplace=True), nn.ReLU6(), nn.ReLU6(inplace=True), nn.SELU(), nn.SiLU(), nn.Sigmoid(),
    nn.Softmax(1), nn.Softmin(1), nn.Softplus(), nn.Softshrink(), nn.Softsign(), nn.Tanh(), nn.Tanhshrink(),
    nn.Threshold(0.1, 2.0), nn.Dropout(), nn.AlphaDropout(), nn.FeatureAlphaDropout(), nn.Dropout1d(),
    nn.Identity(), nn.Flatten(),
]  # fmt: skip
OF_STEPS = [
    nn.BatchNorm1d(16), nn.BatchNorm1d(16, track_running_stats=False), nn.InstanceNorm1d(16, affine=True),
    nn.GroupNorm(4, 16), nn.LayerNorm(20), nn.RMSNorm(20), nn.LocalResponseNorm(2), nn.AvgPool1d(2),
    nn.MaxPool1d(2), nn.LPPool1d(2, 2), nn.AdaptiveAvgPool1d(3), nn.AdaptiveMaxPool1d(3),
    nn.ReflectionPad1d(2), nn.ReplicationPad1d(2), nn.ZeroPad1d(2), nn.ConstantPad1d(2, 1.0),
    nn.CircularPad1d(2), nn.Upsample(scale_factor=2), nn.Upsample(scale_factor=2, mode="linear"),
    nn.Unflatten(1, (4, 4)),
]  # fmt: skip
OF_PICTURES = [
    nn.BatchNorm2d(16), nn.InstanceNorm2d(16, affine=True), nn.GroupNorm(4, 16), nn.AvgPool2d(2),
    nn.MaxPool2d(2), nn.LPPool2d(2, 2), nn.FractionalMaxPool2d(2, output_size=3), nn.AdaptiveAvgPool2d(3),
    nn.AdaptiveMaxPool2d(3), nn.ReflectionPad2d(2), nn.ReplicationPad2d(2), nn.ZeroPad2d(2),
    nn.CircularPad2d(2), nn.Upsample(scale_factor=2), nn.Upsample(scale_factor=2, mode="bilinear"),
    nn.Upsample(scale_factor=2, mode="bicubic"), nn.PixelShuffle(2), nn.PixelUnshuffle(2),
    nn.ChannelShuffle(4), nn.Softmax2d(), nn.Dropout2d(), nn.Unfold(2),
]  # fmt: skip
OF_BLOCKS = [
    nn.BatchNorm3d(16), nn.InstanceNorm3d(16, affine=True), nn.AvgPool3d(2), nn.MaxPool3d(2),
    nn.AdaptiveAvgPool3d(2), nn.AdaptiveMaxPool3d(2), nn.FractionalMaxPool3d(2, output_size=2),
    nn.ReflectionPad3d(1), nn.ReplicationPad3d(1), nn.ZeroPad3d(1),
    nn.Upsample(scale_factor=2, mode="trilinear"), nn.Dropout3d(),
]  # fmt: skip
FUNCTIONS = {
    "normalize": functional.normalize,
    "norm": lambda x: x / x.norm(dim=-1, keepdim=True),
    "std": lambda x: x - x.std(1, keepdim=True),
    "cumprod": lambda x: x.cumprod(1),
    "floor division": lambda x: x + torch.arange(20) // 3,
    "rot90": lambda x: torch.rot90(x, 1, (1, 2)),
    "trace": lambda x: x + torch.trace(x[0]),
    "window": lambda x: x * torch.hann_window(20),
    "mask": lambda x: x.masked_fill(x > 0, 0.0),
    "mask in place": lambda x: x.clone().masked_fill_(x > 0, 0.0),
    "block_diag": lambda x: torch.block_diag(x[0], x[0]),
    "cross": lambda x: torch.linalg.cross(x[..., :3], x[..., 3:6]),
    "vander": lambda x: x + torch.vander(torch.arange(16.0), 20),
    "grid_sample": lambda x: functional.grid_sample(x[None], torch.zeros(1, 4, 4, 2), align_corners=False),
}
EVERYDAY = [
    *((module, STEPS) for module in ACTIVATIONS + OF_STEPS),
    *((module, PICTURE) for module in OF_PICTURES),
    *((module, BLOCK) for module in OF_BLOCKS),
    *((Function(lambda m, x, of=of: of(x)), STEPS) for of in FUNCTIONS.values()),
]
NAMES = [type(module).__name__ for module, _ in EVERYDAY[: -len(FUNCTIONS)]] + list(FUNCTIONS)


@pytest.mark.parametrize(("module", "shape"), EVERYDAY, ids=NAMES)
def test_everyday_layers_without_products_are_not_refused(module, shape):
    first = nn.Conv1d if shape is STEPS else nn.Conv2d if shape is PICTURE else nn.Conv3d
    network = nn.Sequential(first(16, 16, 1), module)
    product = 16 * prod(shape)
    assert forward(network, *shape) == product
    assert training(network, *shape) == 2 * product


def padded_attention(module, x):
    return module.members[0](x, x, x, key_padding_mask=torch.zeros(1, 20).bool())[0]


def padded_encoder(module, x):
    return module.members[0](x, src_key_padding_mask=torch.zeros(1, 20).bool())


def test_padding_masks_change_no_count():
    attention = nn.MultiheadAttention(16, 4, batch_first=True)
    plain = Function(lambda m, x: m.members[0](x, x, x)[0], attention)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 1)
    for count in (forward, training):
        assert count(Function(padded_attention, attention), 20, 16) == count(plain, 20, 16)
        assert count(Function(padded_encoder, encoder), 20, 16) == count(encoder, 20, 16)


def test_an_affine_grid_is_a_product_of_its_places_with_a_matrix():
    moved = Function(
        lambda m, x: functional.affine_grid(m.weights[:2, :3][None], (1, 4, 5, 6), align_corners=False)
    )
    assert forward(moved, 3) == 5 * 6 * 2 * 3
    assert training(moved, 3) == 2 * 5 * 6 * 2 * 3


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.other = nn.Linear(10, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.used(x)


def test_parameters_that_nothing_uses_cost_nothing():
    module = Unused()
    assert training(module, 10) == 2 * 40
    module.used.requires_grad_(False)
    assert training(module, 10) == 40
    assert training(module.requires_grad_(False), 10) == 40


class Alone(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x * self.scale


def test_what_cannot_be_counted_is_an_error_with_the_module_and_the_setting():
    nested = nn.Sequential(nn.Sequential(nn.Linear(16, 16), Spectrum()), nn.Linear(9, 2))
    with pytest.raises(InputError, match=r"_fft_r2c.* in module '0\.1' \(Spectrum\).*operations_per_sample"):
        forward(nested, 16)
    with pytest.raises(InputError, match="no multiply-add was found in it; set"):
        forward(Alone(), 4)
    assert nested.training  # as it was


class Unknown(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return torch.fft.rfft(gradient, n=30).abs()


def test_an_error_in_the_gradient_names_the_module():
    inner = nn.Sequential(Function(lambda m, x: Unknown.apply(x)), nn.ReLU())
    network = nn.Sequential(nn.Linear(16, 16), inner)
    assert forward(network, 16) == 256
    with pytest.raises(InputError, match=r"_fft_r2c.* in the gradient of module '1\.0' \(Function\) cannot"):
        training(network, 16)


def test_a_model_of_ones_own_is_counted_on_every_preset():
    for preset_model in ("mlp", "cnn"):
        settings = learning(preset_model).model_copy(update={"model": USER + "deep", "shared_layers": 1})
        own = workload(settings, (1, 28, 28))
        assert own.operations_per_sample == 784 * 20 + 20 * 12 + 12 * 10
    assert workload(learning(), (1, 14, 14)).operations_per_sample == mlp((1, 14, 14)).parameters
    trained = workload(learning(USER + "deep", operations_per_sample="training"), (1, 28, 28))
    assert trained.operations_per_sample == 2 * 784 * 20 + 3 * (20 * 12 + 12 * 10)


def test_a_number_of_the_users_is_taken_as_it_is():
    settings = learning(USER + "with_spectrum", shared_layers=1, operations_per_sample=1234.0)
    assert workload(settings, (1, 28, 28)).operations_per_sample == 1234
    with pytest.raises(InputError, match="cannot be counted"):
        workload(learning(USER + "with_spectrum", shared_layers=1), (1, 28, 28))
