"""What a notebook user meets: `pmafl.` and Tab, reprs, paths as text, values of numpy."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pmafl
from pmafl.devices import SimulatedDevices
from pmafl.errors import InputError
from pmafl.rounds import advance, round_problem, start
from pmafl.scheduling import ask, begin
from pmafl.world import build_world, outlook

SCREEN = 1000  # characters, of which a screen has about 2,000


def test_the_package_offers_what_it_is_for_and_nothing_else():
    assert set(dir(pmafl)) == {*pmafl.__all__, "__version__"}
    assert not {"Any", "TYPE_CHECKING", "import_module"} & set(vars(pmafl))
    assert {"open_run", "Run", "scheduling", "learning", "wireless"} <= set(dir(pmafl))
    for name in pmafl.__all__:
        assert getattr(pmafl, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = pmafl.simulat


def test_the_callbacks_are_there_after_the_import():
    code = "import pmafl, sys; print(pmafl.callbacks.tensorboard.__name__, 'torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["tensorboard", "False"]


def test_the_doors_for_extensions_open_without_torch():
    code = (
        "import pmafl, sys; print(pmafl.scheduling.POLICIES.find('dual').__name__, "
        "pmafl.learning.algorithms.ALGORITHMS.find('pma').__name__, "
        "pmafl.wireless.channels.CHANNELS.find('rician').__name__, 'torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["dual", "pma", "rician", "False"]


def test_overrides_may_be_values_of_numpy_and_paths():
    settings = pmafl.load_settings(
        "mnist",
        {
            "run.rounds": np.int64(3),
            "run.learning": "none",
            "cell.deadline_s": np.float32(2.5),
            "policy.hard_budget": np.bool_(True),
            "fleet.devices": np.uint8(4),
            "fleet.budget_j": np.linspace(0.1, 0.4, 4),
            "fleet.samples": np.array([5, 6, 7, 8]),
            "fleet.max_power_w": {"distribution": "choice", "values": np.array([1, 2])},
            "policy.options": {"count": np.int32(2)},
            "data.directory": Path("somewhere"),
        },
    )
    assert settings.fleet.budget_j == pytest.approx((0.1, 0.2, 0.3, 0.4))
    assert settings.fleet.samples == (5, 6, 7, 8)
    assert settings.data.directory == "somewhere"
    assert settings.policy.options == {"count": 2}
    assert type(settings.run.rounds) is int
    assert pmafl.load_settings("mnist", {"run.seed": 3}).run.seed == 3


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"fleet.budget_j": np.ones(3)}, "budget_j lists 3 values, but devices = 100"),
        ({"run.rounds": np.float64(2.5)}, "run.rounds = 2.5"),
        ({"policy.options": {"a": "\udcff"}}, "policy.options.a = .*: must be text in UTF-8"),
        ({"policy.options": {"a": 16**6000}}, "policy.options.a: has a whole number of thousands of digits"),
        ({3: 4}, "3 is not a setting"),
    ],
)
def test_wrong_overrides_are_one_line(overrides, said):
    with pytest.raises(InputError, match=said):
        pmafl.load_settings("mnist", overrides)


def test_paths_may_be_text(tmp_path):
    directory = str(tmp_path / "run")
    settings = pmafl.load_settings("mnist", {"run.learning": "none", "run.rounds": 2})
    pmafl.create_run(directory, settings)
    assert pmafl.execute_run(directory)["rounds"] == 2
    assert pmafl.load_settings(directory) == settings


def test_nothing_prints_a_screen():
    overrides = {"run.learning": "none", "policy.name": "steady", "fleet.budget_j": [0.1] * 100}
    settings = pmafl.load_settings("mnist", overrides)
    world = build_world(settings)
    devices = SimulatedDevices(world)
    state, record = advance(world, devices, start(world))
    problem = round_problem(world, state, devices.report(state.round))
    remembered = begin(world.policy, outlook(world), "steady")
    decision = ask(world.policy, problem, remembered, np.random.default_rng(0), "steady")
    shown = [settings, settings.fleet, world, state, state.queues, record, problem, decision]
    for entity in [*shown, world.fleet, outlook(world), replace(record, scheduled=[])]:
        assert len(repr(entity)) < SCREEN, repr(entity)
        assert len(str(entity)) < SCREEN
        assert repr(entity).startswith(f"{type(entity).__name__}(")


def test_a_repr_says_what_matters():
    settings = pmafl.load_settings("mnist", {"run.learning": "none", "run.rounds": 2, "run.seed": 5})
    expected = "Settings(dataset='mnist', devices=100, policy='set-expansion', rounds=2, seed=5)"
    assert repr(settings) == expected
    record, *_ = pmafl.simulate(settings)
    assert repr(record).startswith(
        f"Record(round=0, scheduled=<{len(record.scheduled)} values>, scheduled_samp"
    )
    assert "accuracy" not in repr(record)
