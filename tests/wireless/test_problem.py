import numpy as np
import pytest

from pmafl.errors import InputError


def test_work_is_iterations_times_samples_times_cycles(make_problem):
    problem = make_problem(samples=[600], cycles_per_sample=[137586.5], local_iterations=5)
    assert problem.work_cycles == pytest.approx([412_759_500.0])
    assert problem.value == pytest.approx([0.6])
    assert problem.devices == 1


def test_energy_caps_are_infinite_where_left_out(make_problem):
    assert make_problem(samples=[1, 2, 3]).energy_cap_j.tolist() == [np.inf] * 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bandwidth_hz": 0}, "bandwidth_hz is 0; it must be a number from 1e-40"),
        ({"noise_w_per_hz": float("nan")}, "noise_w_per_hz is nan"),
        ({"deadline_s": -1}, "deadline_s is -1"),
        ({"local_iterations": 2.5}, "local_iterations is 2.5; it must be a whole number"),
        ({"local_iterations": 0}, "local_iterations is 0; it must be a whole number"),
        ({"tradeoff": "much"}, "tradeoff is 'much'"),
        ({"samples": [], "queue_j": []}, "no devices"),
        ({"samples": [1, 2], "queue_j": [0]}, r"queue_j has shape \(1,\); it must be \(2,\)"),
        ({"samples": [1, 2], "channel_gain": [1e-8, -1e-8]}, "channel_gain of device 1 is -1e-08"),
        ({"queue_j": [float("inf")]}, "queue_j of device 0 is inf"),
        ({"energy_cap_j": [-1]}, "energy_cap_j of device 0 is -1"),
        ({"max_power_w": [0]}, "max_power_w of device 0 is 0"),
        ({"upload_bits": [1.0, 2.0, 3.0]}, "upload_bits has shape"),
        ({"upload_bits": 0.5}, "upload_bits of device 0 is 0.5; it must be 0, or from 1 to 1e\\+15"),
        ({"queue_j": [1e-50]}, "queue_j of device 0 is 1e-50; it must be 0 or a number from 1e-40"),
    ],
)
def test_a_wrong_value_is_named_in_one_line(make_problem, change, said):
    with pytest.raises(InputError, match=said) as error:
        make_problem(**change)
    assert "\n" not in str(error.value)
