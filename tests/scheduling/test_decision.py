import numpy as np
import pytest

from pmafl.scheduling import allocate_given


def test_its_numbers_are_the_papers_formulas(make_problem):
    problem = make_problem(queue_j=[0.3, 0.6])
    decision = allocate_given(problem, np.array([True, True]), "test")
    work = 412_759_500.0
    assert decision.frequency_hz == pytest.approx(work / decision.compute_time_s)
    assert decision.compute_energy_j == pytest.approx(5e-27 * work * decision.frequency_hz**2)
    width_hz = decision.bandwidth_share * 1e7
    rate = width_hz * np.log2(1 + decision.power_w * 1e-8 / (width_hz * 10**-20.4))
    assert rate * decision.upload_time_s == pytest.approx(np.full(2, 8_531_968.0), rel=1e-9)
    assert decision.upload_energy_j == pytest.approx(decision.power_w * decision.upload_time_s)
    assert decision.objective == pytest.approx(-1.2 + 0.3 * decision.energy_j[0] + 0.6 * decision.energy_j[1])


def test_a_relative_gap_is_measured_by_the_bound(make_problem):
    decision = allocate_given(make_problem(), np.array([True]), "test")
    assert decision.relative_gap is None
