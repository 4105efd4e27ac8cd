from dataclasses import replace

import numpy as np
import pytest

from pmafl.errors import InputError
from pmafl.rounds import play, simulate
from pmafl.settings import load
from pmafl.world import (
    build_world,
    channel_gain,
    channel_gains,
    make_problem,
    outlook,
    tuning_cost,
    wireless_world,
)


def wireless(**changes):
    overrides = {"run.learning": "none", "run.rounds": 10, "policy.name": "dual"}
    return load("mnist", overrides | {key.replace("__", "."): value for key, value in changes.items()})


def test_policies_on_one_seed_see_the_same_devices_and_channels():
    one, other = (build_world(wireless(policy__name=name)) for name in ("dual", "ocean"))
    assert np.array_equal(one.fleet.path_gain, other.fleet.path_gain)
    assert np.array_equal(one.fleet.samples, other.fleet.samples)
    for index in (0, 7):
        assert np.array_equal(channel_gain(one, index), channel_gain(other, index))
    assert not np.array_equal(channel_gain(one, 0), channel_gain(one, 1))


def test_algorithms_on_one_seed_see_the_same_data_and_channels(tiny):
    worlds = [build_world(load("mnist", tiny | {"learning.algorithm": name})) for name in ("pma", "fedavg")]
    assert np.array_equal(channel_gain(worlds[0], 3), channel_gain(worlds[1], 3))
    for device in range(6):
        a, b = (world.task.device_samples(device) for world in worlds)
        assert np.array_equal(a.x.numpy(), b.x.numpy())


def test_a_policy_that_needs_the_cell_is_refused_without_it():
    with pytest.raises(InputError, match="'dual' needs the radio; without it choose uniform or all"):
        build_world(load("mnist", {"run.wireless": "none", "policy.name": "dual"}))


def test_a_deadline_that_no_device_can_meet_is_refused():
    with pytest.raises(InputError, match=r"cell.deadline_s = 0.2: no device can take part"):
        build_world(wireless(cell__deadline_s=0.2))


def test_a_trace_replaces_the_channel_model(tmp_path):
    gains = np.random.default_rng(3).exponential(1e-8, (10, 100))
    np.save(tmp_path / "gains.npy", gains)
    world = build_world(wireless(cell__gain_trace=str(tmp_path / "gains.npy")))
    assert np.array_equal(channel_gain(world, 4), gains[4])
    assert np.array_equal(channel_gains(world), gains)
    assert len(list(simulate(world.settings))) == 10


def test_the_wireless_world_is_the_same_without_learning(tiny):
    settings = load("mnist", tiny)
    assert np.array_equal(wireless_world(settings).fleet.samples, build_world(settings).fleet.samples)


def test_what_a_policy_knows_beforehand_are_mean_channels_and_their_law():
    world = build_world(wireless(cell__channel="rician"))
    known = outlook(world)
    assert np.array_equal(known.problem.channel_gain, world.fleet.path_gain)
    assert np.array_equal(known.budget_j, world.fleet.budget_j)
    assert (known.rounds, known.fading.shape) == (10, (32,))
    assert known.fading.mean() == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("channel", ["exponential", "none", "rician", "shadowing"])
def test_the_gains_of_a_round_are_the_same_whoever_asks(channel):
    options = {} if channel in ("exponential", "none") else {"correlation": 0.7}
    world = build_world(wireless(cell__channel=channel, cell__options=options))
    gains = channel_gains(world)
    assert gains.shape == (10, 100)
    for index in (0, 4, 9, 3):
        assert np.array_equal(channel_gain(world, index), gains[index])
    report = [problem.channel_gain for problem in problems_of(world)]
    assert np.array_equal(np.stack(report), gains)


def problems_of(world):
    """What the policy was given, round by round."""
    seen = []

    def decide(problem, state, rng):
        seen.append(problem)
        return world.policy.decide(problem, state, rng)

    list(play(replace(world, policy=replace(world.policy, decide=decide))))
    return seen


def test_upload_sizes_of_another_number_of_devices_are_refused(tiny):
    settings = load("mnist", tiny | {"learning.algorithm": "tests.learning.user_algorithms:too_few_devices"})
    with pytest.raises(InputError, match="gives upload sizes of 3 devices; there are 6"):
        build_world(settings)


def test_uploads_that_differ_by_device_set_the_bits_of_each():
    changes = {"run.learning": "none", "learning.upload": "qsgd", "fleet.devices": 3, "fleet.samples": 300}
    world = build_world(load("mnist", changes | {"learning.upload_options.bits": [2, 4, 8]}))
    bits = make_problem(world, world.fleet, world.fleet.path_gain, np.zeros(3)).upload_bits
    assert bits[0] < bits[1] < bits[2]
    with pytest.raises(
        InputError, match=r"learning\.upload_options: gives upload sizes of 2 devices; there are 3"
    ):
        build_world(load("mnist", changes | {"learning.upload_options.bits": [2, 4]}))


@pytest.mark.parametrize(("algorithm", "least"), [("local", 10), ("pma", 10), ("fedrep", 5), ("pfedme", 2)])
def test_watches_take_part_whatever_work_an_algorithm_has(algorithm, least):
    """One, two and five times the work: fewer watches per round, within their budgets, nobody left out."""
    world = wireless_world(load("watch", {"learning.algorithm": algorithm, "run.learning": "none"}))
    states, records = zip(*play(world), strict=True)
    rounds = len(records)
    assert np.mean([len(record.scheduled) for record in records]) >= least
    assert len({device for record in records for device in record.scheduled}) == 20
    assert (states[-1].queues.spent_j <= 0.05 * rounds * (1 + 1e-9)).all()
    assert states[-1].queues.spent_j.mean() > 0.9 * 0.05 * rounds


def test_tuning_takes_the_clock_of_least_energy_within_the_deadline():
    """The energy of every other clock that a device may have is as much or more."""
    for circuits_w in (0.0, 0.5, 1e3):
        changes = {"learning.algorithm": "fine-tune", "fleet.circuit_power_w": circuits_w}
        world = wireless_world(load("mnist", changes))
        energy_j, time_s = tuning_cost(world)
        work = 5 * world.fleet.samples * world.fleet.cycles_per_sample
        for other_s in np.geomspace(work / world.fleet.max_frequency_hz, 2.0, 40):
            assert (energy_j <= (1 + 1e-9) * (5e-27 * work**3 / other_s**2 + circuits_w * other_s)).all()
        assert (time_s <= 2.0).all()
    assert not np.any(tuning_cost(wireless_world(load("mnist"))))
