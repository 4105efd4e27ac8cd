"""What holds for every channel model: mean, law, state, and errors of one line."""

import numpy as np
import pytest

from pmafl.errors import InputError
from pmafl.settings import load
from pmafl.streams import stream
from pmafl.wireless.channels import CHANNELS, Channel, Site, make_channel

MODELS = [
    ("exponential", {}),
    ("none", {}),
    ("rician", {}),
    ("rician", {"k_factor_db": -5.0, "correlation": 0.8}),
    ("rician", {"k_factor_db": 15.0, "correlation": 0.5}),
    ("shadowing", {}),
    ("shadowing", {"deviation_db": 3.0, "correlation": 0.5}),
    ("shadowing", {"deviation_db": 4.0, "fading": False}),
    ("shadowing", {"deviation_db": 0.0}),
]


def channel(model, options, path_gain=None, devices=200_000):
    cell = load("mnist", {"cell.channel": model, "cell.options": options}).cell
    path_gain = np.ones(devices) if path_gain is None else path_gain
    return make_channel(Site(cell, np.full(path_gain.size, 100.0), path_gain), rounds=10)


def rounds(made, count, state=None, first=0):
    """Gains and states of several rounds, drawn as a run does."""
    state = made.start(stream(3, "fading")) if state is None else state
    gains, states = [], []
    for index in range(first, first + count):
        gain, state = made.gains(state, index, stream(3, "fading", index))
        gains.append(gain)
        states.append(state)
    return np.stack(gains), states


@pytest.mark.parametrize(("model", "options"), MODELS)
def test_the_mean_is_the_path_gain_in_every_round(model, options):
    gains, _ = rounds(channel(model, options), 3)
    error = gains.std(axis=1) / np.sqrt(gains.shape[1])
    assert np.all(np.abs(gains.mean(axis=1) - 1) <= 5 * error + 1e-12)


@pytest.mark.parametrize(("model", "options"), MODELS)
def test_the_law_has_the_quantiles_of_the_draws(model, options):
    made = channel(model, options)
    drawn = np.sort(rounds(made, 5)[0][4]).reshape(32, -1)
    assert made.law(32) == pytest.approx(np.median(drawn, axis=1), rel=0.04, abs=0.003)


@pytest.mark.parametrize(("model", "options"), MODELS)
def test_the_mean_of_the_law_is_nearly_one(model, options):
    """The middles of classes leave out a part of a long tail."""
    assert channel(model, options, devices=1).law(1000).mean() == pytest.approx(1, rel=0.03)


@pytest.mark.parametrize(("model", "options"), MODELS)
def test_gains_follow_the_path_gain_of_each_device(model, options):
    path_gain = np.geomspace(1e-12, 1e-6, 50)
    made = channel(model, options, path_gain)
    assert np.array_equal(made.mean_gain, path_gain)
    of_ones, _ = rounds(channel(model, options, np.ones(50)), 2)
    assert rounds(made, 2)[0] == pytest.approx(of_ones * path_gain, rel=1e-12)


@pytest.mark.parametrize(("model", "options"), MODELS)
def test_going_on_from_a_saved_state_gives_the_same_gains(model, options):
    whole, states = rounds(channel(model, options, devices=20), 8)
    assert all(isinstance(part, np.ndarray) and name for name, part in states[3].items())
    saved = {name: part.copy() for name, part in states[3].items()}
    rest, _ = rounds(channel(model, options, devices=20), 4, saved, first=4)
    assert np.array_equal(rest, whole[4:])


@pytest.mark.parametrize(("model", "options"), MODELS)
def test_a_state_is_not_changed_by_the_round_that_uses_it(model, options):
    made = channel(model, options, devices=20)
    before = made.start(stream(3, "fading"))
    kept = {name: part.copy() for name, part in before.items()}
    made.gains(before, 0, stream(3, "fading", 0))
    assert all(np.array_equal(before[name], part) for name, part in kept.items())


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (
            "rayleigh",
            {},
            "cell.channel = 'rayleigh': there is no such channel model; choose exponential, none",
        ),
        ("ricain", {}, "did you mean 'rician'"),
        ("exponential", {"mean": 2.0}, "'exponential' was given the options mean; it has none"),
        ("rician", {"k": 3.0}, "was given the options k; it has k_factor_db, correlation"),
        ("rician", {"k_factor_db": "high"}, "option k_factor_db = 'high': must be a number"),
        ("rician", {"k_factor_db": 1e9}, "k_factor_db = 1000000000.0: must be from -100 to 100"),
        ("rician", {"k_factor_db": float("nan")}, "k_factor_db = nan: must be from -100 to 100"),
        ("rician", {"correlation": 1.0}, "correlation = 1.0: must be from 0 to below 1"),
        ("shadowing", {"correlation": -0.1}, "correlation = -0.1: must be from 0 to below 1"),
        ("shadowing", {"deviation_db": -1.0}, "deviation_db = -1.0: must be from 0 to 40"),
        ("shadowing", {"fading": "no"}, "option fading = 'no': must be true or false"),
        ("no.such.module:model", {}, "there is no module 'no'"),
    ],
)
def test_a_wrong_model_or_option_is_one_line(model, options, said):
    with pytest.raises(InputError) as error:
        channel(model, options, devices=3)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


OWN = """
import numpy as np
from pmafl.wireless.channels import Channel, memoryless, middles

def pulsed(site, period=2, weak=0.5):
    '''Strong and weak rounds in turn, remembered as a count.'''
    factors = np.array([2 - weak, weak])

    def gains(state, round_index, rng):
        strong = state["count"] % period == 0
        return site.path_gain * np.where(strong, 2 - weak, weak), {"count": state["count"] + 1}

    return Channel(site.path_gain, gains, lambda count: np.resize(factors, count),
                   lambda rng: {"count": np.zeros(site.devices)})

def number(site):
    return 3

def short(site):
    return memoryless(site.path_gain, lambda devices, rng: np.ones(2), np.ones_like)

def negative(site):
    return memoryless(site.path_gain, lambda devices, rng: -np.ones(devices), np.ones_like)

def raising(site):
    return memoryless(site.path_gain, lambda devices, rng: 1 / 0, np.ones_like)

def listing(site):
    return Channel(site.path_gain, lambda state, index, rng: (site.path_gain, [1]), np.ones, lambda rng: {})
"""


@pytest.fixture
def own_channels(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_channel_models.py").write_text(OWN)


@pytest.mark.usefixtures("own_channels")
def test_a_users_own_model_works_by_its_path():
    made = channel("own_channel_models:pulsed", {"weak": 0.25}, devices=4)
    assert isinstance(made, Channel)
    gains, _ = rounds(made, 4)
    assert gains[:, 0].tolist() == [1.75, 0.25, 1.75, 0.25]
    with pytest.raises(InputError, match="was given the options strong; it has period, weak"):
        channel("own_channel_models:pulsed", {"strong": 1.0}, devices=4)


@pytest.mark.usefixtures("own_channels")
def test_a_model_that_makes_no_channel_is_refused():
    with pytest.raises(InputError, match="must return a Channel, but returned a int"):
        channel("own_channel_models:number", {}, devices=4)


@pytest.mark.usefixtures("own_channels")
@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("raising", "in round 0: raised ZeroDivisionError: division by zero"),
        ("negative", "in round 0: gain has -1 at 0; it must be 0 or more"),
        ("listing", "in round 0: the state is a list; it must be a mapping"),
        ("short", "in round 0: "),
    ],
)
def test_what_goes_wrong_in_a_users_model_names_it_and_the_round(model, said):
    made = channel(f"own_channel_models:{model}", {}, devices=4)
    with pytest.raises(InputError) as error:
        rounds(made, 1)
    assert str(error.value).startswith(f"channel model 'own_channel_models:{model}' {said}")
    assert "\n" not in str(error.value)


def test_the_models_are_listed():
    assert CHANNELS.names() == ["exponential", "none", "rician", "shadowing"]
