"""Multiply-adds against counts by hand: biases, activations, normalisation and pooling count nothing."""

import pytest
import torch
from torch import nn

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
