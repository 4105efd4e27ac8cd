import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmafl.errors import InputError, NoAnswer
from pmafl.scheduling import find_policy
from pmafl.scheduling.exchange import answer, read_question, write
from pmafl.wireless.problem import COMMON_FIELDS

CELL = {
    "bandwidth_hz": 1e7,
    "noise_w_per_hz": 3.98e-21,
    "deadline_s": 2.0,
    "upload_bits": 8531968,
    "energy_coefficient": 5e-27,
    "local_iterations": 5,
    "tradeoff": 0.001,
}
DEVICE = {
    "samples": 600,
    "cycles_per_sample": 137586.5,
    "max_frequency_hz": 1e9,
    "max_power_w": 1.0,
    "channel_gain": 1e-8,
    "queue_j": 0.3,
}


def test_a_problem_is_read_as_it_is_written():
    question = read_question(json.dumps(CELL | {"devices": [DEVICE, DEVICE | {"energy_cap_j": 2}]}))
    problem = question.problem
    assert problem.devices == 2
    assert problem.work_cycles == pytest.approx([412_759_500] * 2)
    assert problem.energy_cap_j.tolist() == [np.inf, 2.0]
    assert question.fixed is None


def test_upload_bits_are_one_number_or_one_per_device():
    one = read_question(json.dumps(CELL | {"devices": [DEVICE, DEVICE | {"upload_bits": 5}]})).problem
    assert one.upload_bits.tolist() == [8531968, 5]
    cell = {name: value for name, value in CELL.items() if name != "upload_bits"}
    with pytest.raises(InputError, match=r"devices\[1\] has no upload_bits"):
        read_question(json.dumps(cell | {"devices": [DEVICE | {"upload_bits": 5}, DEVICE]}))


def test_a_scheduled_list_fixes_the_set():
    question = read_question(json.dumps(CELL | {"devices": [DEVICE] * 3, "scheduled": [2, 0]}))
    assert question.fixed.tolist() == [True, False, True]


def test_a_decision_has_one_entry_per_device_and_null_for_what_is_unknown():
    question = read_question(json.dumps(CELL | {"devices": [DEVICE, DEVICE | {"channel_gain": 0}]}))
    found = json.loads(write(answer(question, find_policy("set-expansion")(question.problem, None))))
    assert found["scheduled"] == [0]
    assert found["lower_bound"] is None
    assert found["gap"] is None
    columns = [key for key in found if isinstance(found[key], list) and key not in ("scheduled", "left_out")]
    assert all(len(found[key]) == 2 for key in columns)


number = st.one_of(
    st.floats(),
    st.sampled_from([0, 1, 1e-30, 1e3, 1e9, 1e30, 1e-60, 1e300, -1]),
    st.integers(-(10**400), 10**400),
    st.text(max_size=3),
    st.none(),
    st.booleans(),
    st.lists(st.floats(), max_size=2),
)


@given(
    st.dictionaries(st.sampled_from([*CELL, "scheduled", "extra"]), number, max_size=3),
    st.lists(st.dictionaries(st.sampled_from([*DEVICE, *COMMON_FIELDS]), number, max_size=3), max_size=4),
    st.sampled_from(["dual", "set-expansion", "exhaustive", "ocean", "rs-wel", "all"]),
)
def test_any_problem_gets_a_finite_answer_or_one_clear_line(cell, devices, name):
    text = json.dumps(CELL | cell | {"devices": [DEVICE | device for device in devices]})
    try:
        question = read_question(text)
        decision = find_policy(name)(question.problem, np.random.default_rng(0))
    except (InputError, NoAnswer) as error:
        assert str(error)
        assert "\n" not in str(error)
        return
    found = json.loads(write(answer(question, decision)), parse_constant=pytest.fail)
    assert sum(found["bandwidth_share"]) <= 1 + 1e-9
