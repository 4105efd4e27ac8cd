"""The field's policies by their definitions, on problems made by hand."""

import inspect
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmafl
from pmafl.errors import InputError
from pmafl.scheduling import POLICIES, Outcome, Outlook, ask, begin, find_policy, tell
from pmafl.scheduling.checking import checked
from pmafl.scheduling.oort_like import needed_time, utility
from tests.problems import cell_problem

NEW = ["round-robin", "proportional-fair", "best-channel", "oldest", "fedcs", "power-of-choice", "oort-like"]
FRAMES = {"frame": 3, "first_weight": 0.5, "last_weight": 2.0}
WITH_OPTIONS = [
    ("round-robin", {"count": 3}),
    ("proportional-fair", {"count": 3}),
    ("steady", {}),
    ("ocean", FRAMES),
    ("uniform", {"count": 3}),
]
EVERY = [
    (name, {}) for name in POLICIES if name not in ("round-robin", "proportional-fair", "steady", "uniform")
] + WITH_OPTIONS


@pytest.fixture
def alike(make_problem):
    """So many devices that differ only in what is said."""

    def make(devices, round=0, **changes):
        plain = {"queue_j": np.full(devices, 0.1), "channel_gain": np.full(devices, 1e-7)}
        return replace(make_problem(**plain | changes), round=round)

    return make


def rng(seed=0):
    return np.random.default_rng(seed)


def play(name, problems, rounds=100, **options):
    """The sets that a policy schedules round after round, and its last state."""
    policy, chosen = find_policy(name, **options), []
    state = begin(policy, Outlook(problems[0], np.ones(1), rounds), name)
    for number, problem in enumerate(problems):
        decision = ask(policy, problem, state, rng(number), name)
        outcome = Outcome(decision.scheduled, decision.energy_j, np.full(problem.devices, np.nan))
        state = tell(policy, state, problem, decision, outcome, name)
        chosen.append(decision.scheduled_devices)
    return chosen, state


def test_round_robin_takes_all_in_turn(alike):
    chosen, state = play("round-robin", [alike(5)] * 4, count=2)
    assert chosen == [[0, 1], [2, 3], [0, 4], [1, 2]]
    assert state["next"] == 3


def test_round_robin_passes_over_who_cannot_and_begins_with_who_did_not_fit(alike):
    weak = alike(5, channel_gain=[1e-7, 0, 1e-7, 1e-7, 1e-7])
    assert play("round-robin", [weak] * 3, count=2)[0] == [[0, 2], [3, 4], [0, 2]]
    narrow = alike(5, upload_bits=1.6e8)  # two fit
    chosen, _ = play("round-robin", [narrow] * 4, count=4)
    assert chosen == [[0, 1], [2, 3], [0, 4], [1, 2]]


def test_proportional_fair_measures_devices_by_their_own_mean(alike):
    start = alike(3, channel_gain=[1e-7, 1e-8, 1e-8])
    now = alike(3, channel_gain=[1.1e-7, 0.5e-8, 2e-8])
    chosen, state = play("proportional-fair", [start, now], count=1)
    assert chosen[1] == [2]
    assert state["mean_gain"] == pytest.approx([(2 * 1e-7 + 1.1e-7) / 3, 2.5e-8 / 3, 4e-8 / 3])
    _, state = play("proportional-fair", [start, now], count=1, window=1)
    assert state["mean_gain"] == pytest.approx(now.channel_gain)


def test_best_channel_takes_the_strongest(alike):
    problem = alike(4, channel_gain=[1e-8, 4e-8, 2e-8, 3e-8])
    assert find_policy("best-channel", count=2)(problem, None).scheduled_devices == [1, 3]


def test_oldest_takes_who_waited_longest_and_those_who_never_took_part_first(alike):
    problem = alike(4, rounds_since=[3, np.inf, 9, 1])
    assert find_policy("oldest", count=2)(problem, rng()).scheduled_devices == [1, 2]
    draws = {
        tuple(find_policy("oldest", count=1)(alike(6), rng(seed)).scheduled_devices) for seed in range(20)
    }
    assert len(draws) > 2


def test_fedcs_schedules_as_many_as_can_be(alike):
    problem = alike(6, upload_bits=6e7, channel_gain=np.logspace(-9, -7, 6))
    decision = find_policy("fedcs")(problem, None)
    count = len(decision.scheduled_devices)
    assert 0 < count < 6
    assert decision.scheduled_devices == list(range(6 - count, 6))  # the strongest need the least
    assert all(
        len(find_policy("uniform", count=6)(problem, rng(seed)).scheduled_devices) <= count
        for seed in range(20)
    )
    assert len(find_policy("fedcs", candidates=2)(problem, rng()).scheduled_devices) <= 2


def test_power_of_choice_takes_the_largest_loss_of_a_few(alike):
    problem = alike(5, last_loss=[0.5, 2.0, 1.0, 0.1, 1.5])
    assert find_policy("power-of-choice", count=2, candidates=5)(problem, rng()).scheduled_devices == [1, 4]
    unknown = alike(5, last_loss=[0.5, 2.0, 1.0, np.nan, 1.5])
    assert find_policy("power-of-choice", count=1, candidates=5)(unknown, rng()).scheduled_devices == [3]


def test_power_of_choice_draws_by_samples(alike):
    problem = alike(3, samples=[900, 100, 0], last_loss=[1.0, 1.0, 9.0])
    policy = find_policy("power-of-choice", count=1, candidates=1)
    draws = [policy(problem, rng(seed)).scheduled_devices[0] for seed in range(200)]
    assert draws.count(2) == 0
    assert 150 < draws.count(0) < 200


def test_oort_takes_the_useful_and_the_fast(alike):
    exploit = {"count": 1, "exploration": 0.0, "least_exploration": 0.0}
    useful = alike(3, last_loss=[1.0, 4.0, 1.0])
    assert find_policy("oort-like", **exploit)(useful, rng()).scheduled_devices == [1]
    slow = alike(2, last_loss=[1.0, 1.2], channel_gain=[1e-7, 3e-16])
    time_s = needed_time(slow, 1)
    assert time_s[0] < slow.deadline_s < time_s[1]
    assert utility(slow, time_s, 2.0)[1] == pytest.approx(1.2 * 600 * (slow.deadline_s / time_s[1]) ** 2)
    assert utility(slow, time_s, 0.0)[1] == pytest.approx(1.2 * 600)


def test_oort_explores_less_and_less(alike):
    def new_ones(round_index):
        problem = alike(20, last_loss=[1.0] * 10 + [np.nan] * 10, round=round_index)
        return sum(device >= 10 for device in find_policy("oort-like")(problem, rng()).scheduled_devices)

    assert [new_ones(index) for index in (0, 30, 500)] == [9, 5, 2]


def test_oort_favours_those_not_seen_for_long(alike):
    problem = alike(2, last_loss=[1.0, 1.0], rounds_since=[1, 80], round=100)
    seen, forgotten = utility(problem, needed_time(problem, 1), 2.0)
    assert forgotten > seen


@pytest.mark.parametrize("name", NEW)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), devices=st.integers(1, 40))
def test_every_decision_keeps_all_limits(name, seed, devices):
    draw = rng(seed)
    problem = cell_problem(
        draw,
        devices,
        available=draw.random(devices) < 0.8,
        last_loss=np.where(draw.random(devices) < 0.5, np.nan, draw.exponential(size=devices)),
        rounds_since=np.where(draw.random(devices) < 0.5, np.inf, draw.integers(1, 50, devices)),
        energy_cap_j=np.where(draw.random(devices) < 0.5, np.inf, draw.uniform(0, 3, devices)),
        round=int(draw.integers(0, 100)),
    )
    policy = find_policy(name)
    state = begin(policy, Outlook(problem, np.ones(1), 0), name)
    decision = checked(policy.decide(problem, state, draw), problem)
    assert not (decision.scheduled & ~problem.available).any()
    assert np.all(decision.energy_j <= problem.energy_cap_j * (1 + 1e-6))
    assert len(decision.scheduled_devices) <= 10 or name == "fedcs"


@pytest.mark.parametrize(("name", "options"), EVERY)
def test_every_policy_goes_on_to_the_bit_from_a_saved_state(name, options):
    """Half of the rounds, the state through bytes and back, the other half: as all of them at once."""
    draw = rng(1)
    first = cell_problem(
        draw, 7, budget_j=np.full(7, 0.5), last_loss=np.where(draw.random(7) < 0.5, np.nan, 1)
    )
    problems = [
        replace(first, channel_gain=first.channel_gain * draw.exponential(size=7), round=number)
        for number in range(8)
    ]
    policy = find_policy(name, **options)

    def rounds(state, some):
        decisions = []
        for problem in some:
            decision = ask(policy, problem, state, rng(problem.round), name)
            outcome = Outcome(decision.scheduled, decision.energy_j, np.full(7, np.nan))
            state = tell(policy, state, problem, decision, outcome, name)
            decisions.append(decision.bandwidth_share.tobytes() + decision.power_w.tobytes())
        return decisions, state

    start = begin(policy, Outlook(first, np.ones(1), 8), name)
    whole, _ = rounds(start, problems)
    half, state = rounds(start, problems[:4])
    saved = {
        key: np.frombuffer(value.tobytes(), value.dtype).reshape(value.shape) for key, value in state.items()
    }
    assert half + rounds(saved, problems[4:])[0] == whole


@pytest.mark.parametrize("name", NEW)
def test_a_wrong_option_is_named(name):
    option = "candidates" if name == "fedcs" else "count"
    with pytest.raises(InputError, match=f"{option} is 0; it must be 1 or more"):
        find_policy(name, **{option: 0})


def test_oceans_frames_return_its_queues_to_zero(alike):
    problem = alike(2, budget_j=[0.01, 0.01])
    _, state = play("ocean", [problem], frame=2)
    assert (state["queue_j"] > 0).all()
    policy = find_policy("ocean", frame=2)
    in_frame = policy.decide(replace(problem, round=1), state, rng())
    new_frame = policy.decide(replace(problem, round=2), state, rng())
    assert new_frame.objective == pytest.approx(-problem.value.sum())  # energy is free again
    assert in_frame.objective > new_frame.objective


def test_oceans_weights_rise_over_the_rounds(alike):
    problem = alike(2, queue_j=[0.0, 0.0])
    policy = find_policy("ocean", first_weight=0.5, last_weight=2.0)
    state = begin(policy, Outlook(problem, np.ones(1), 4), "ocean")
    objectives = [policy.decide(replace(problem, round=index), state, rng()).objective for index in range(4)]
    assert objectives == pytest.approx(-problem.value.sum() * np.array([0.5, 1.0, 1.5, 2.0]))
    with pytest.raises(InputError, match="weights that change need the number of rounds"):
        begin(policy, Outlook(problem, np.ones(1), 0), "ocean")


def test_ocean_without_them_is_as_it_was(alike):
    assert not find_policy("ocean").remembers
    with pytest.raises(InputError, match="frames need budgets, and device 0 has none"):
        play("ocean", [alike(2)], frame=2)


@pytest.mark.parametrize(
    ("name", "more"), [("set-expansion", {}), ("set-expansion", {"inner": "alternating"}), ("ocean", {})]
)
def test_empty_queues_save_energy_or_take_the_least_band(alike, name, more):
    problem = alike(3, queue_j=np.zeros(3))
    saving = find_policy(name, **more)(problem, None)
    printed = find_policy(name, empty_queues="minimum-band", **more)(problem, None)
    assert saving.scheduled_devices == printed.scheduled_devices == [0, 1, 2]
    assert printed.objective == pytest.approx(saving.objective)
    assert saving.bandwidth_share.sum() == pytest.approx(1)
    assert printed.bandwidth_share.sum() < 0.5
    assert printed.power_w == pytest.approx(problem.max_power_w, rel=1e-6)
    assert printed.frequency_hz == pytest.approx(problem.max_frequency_hz, rel=1e-6)
    assert (printed.energy_j > saving.energy_j).all()
    paying = alike(3)
    same = [
        find_policy(name, empty_queues=rule, **more)(paying, None)
        for rule in ("least-energy", "minimum-band")
    ]
    assert (same[0].bandwidth_share == same[1].bandwidth_share).all()
    with pytest.raises(
        InputError, match="empty_queues is 'none'; it must be one of least-energy, minimum-band"
    ):
        find_policy(name, empty_queues="none")


def test_the_table_of_policies_has_every_name_and_option():
    table = (Path(pmafl.__file__).parent.parent / "docs" / "policies.md").read_text("utf-8")
    rows = {line.split("`")[1]: line for line in table.splitlines() if line.startswith("| `")}
    assert list(rows) == POLICIES.names()
    for name, row in rows.items():
        for option in inspect.signature(POLICIES[name]).parameters:
            assert f"`{option}`" in row, f"{name} has {option}"
