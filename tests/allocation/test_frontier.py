from dataclasses import replace

import numpy as np
import pytest

from pmafl.allocation import frontier as module
from pmafl.wireless.radio import min_share
from tests.p6_reference import Devices
from tests.problems import part, wide_problem


@pytest.fixture(scope="module")
def problems():
    """Fifty problems with devices that can take part alone."""
    rng = np.random.default_rng(0)
    made = [wide_problem(rng, 30) for _ in range(70)]
    able = [np.flatnonzero(min_share(problem) <= 1) for problem in made]
    return [part(problem, devices) for problem, devices in zip(made, able, strict=True) if devices.size][:50]


def along(frontier, steps=40):
    """Points from the whole band to the end of each frontier."""
    for part_of_way in np.linspace(0, 1, steps):
        yield module.point(
            frontier, frontier.log_start + part_of_way * (frontier.log_end - frontier.log_start)
        )


def test_it_runs_from_the_whole_band_to_the_minimum_share(problems):
    for problem in problems:
        frontier = module.frontiers(problem)
        start = module.point(frontier, frontier.log_start)
        assert start.share == pytest.approx(np.ones(problem.devices), rel=1e-9)
        assert frontier.min_share == pytest.approx(min_share(problem), rel=1e-9)


def test_its_energy_is_the_least_that_the_share_allows(problems):
    for problem in problems:
        reference = Devices.of([problem])
        for point in along(module.frontiers(problem), steps=9):
            least = reference.energy(point.share, reference.best_time(point.share))
            assert point.energy_j == pytest.approx(least, rel=1e-6)


def test_energy_and_price_fall_as_the_share_grows(problems):
    for problem in problems:
        points = list(along(module.frontiers(problem)))
        for narrow, wide in zip(points[1:], points, strict=False):
            assert np.all(narrow.share < wide.share)
            assert np.all(narrow.energy_j >= wide.energy_j * (1 - 1e-12))
            assert np.all(narrow.log_price >= wide.log_price - 1e-9)


def test_the_price_is_the_energy_saved_per_share(problems):
    for problem in problems:
        frontier = module.frontiers(problem)
        middle = (frontier.log_start + frontier.log_end) / 2
        here, wide, narrow = (module.point(frontier, middle + step) for step in (0, -1e-4, 1e-4))
        saved = (narrow.energy_j - wide.energy_j) / (wide.share - narrow.share)
        resolved = narrow.energy_j - wide.energy_j > 1e-9 * here.energy_j
        assert saved[resolved] == pytest.approx(np.exp(here.log_price)[resolved], rel=1e-3)


def test_a_cap_on_energy_moves_the_end(problems):
    for problem in problems:
        frontier = module.frontiers(problem)
        least, most = (module.point(frontier, at).energy_j for at in (frontier.log_start, frontier.log_end))
        cap_j = (least + most) / 2
        capped = module.frontiers(replace(problem, energy_cap_j=cap_j))
        end = module.point(capped, capped.log_end)
        assert np.all(end.energy_j <= cap_j * (1 + 1e-9))
        assert np.all(capped.min_share >= frontier.min_share * (1 - 1e-9))
        impossible = module.frontiers(replace(problem, energy_cap_j=least * 0.99))
        assert np.all(np.isinf(impossible.min_share))


def test_whoever_can_keep_within_a_cap_takes_part_within_it(problems):
    for problem in problems[:12]:
        free = module.frontiers(problem)
        start = module.point(free, free.log_start).energy_j
        end = module.point(free, free.log_end).energy_j
        for part_of_way in np.linspace(0.02, 0.98, 15):
            cap_j = start * (end / start) ** part_of_way
            frontier = module.frontiers(replace(problem, energy_cap_j=cap_j))
            assert (frontier.min_share[end > 1.001 * start] <= 1).all()
            assert (module.point(frontier, frontier.log_end).energy_j <= cap_j * (1 + 1e-12)).all()


def test_who_cannot_take_part_has_an_infinite_minimum(make_problem):
    problem = make_problem(samples=[600, 6000, 600], channel_gain=[1e-8, 1e-8, 0.0])
    assert np.isinf(module.frontiers(problem).min_share).tolist() == [False, True, True]


def test_extreme_devices_give_finite_points(make_problem):
    problem = make_problem(
        channel_gain=[1e-17, 1e3, 1e15, 1e-8, 1e-8],
        samples=[600, 600, 600, 0, 600],
        max_frequency_hz=[1e9, 1e9, 1e15, 1e9, 412_759_500 / 2 * (1 + 1e-9)],
    )
    for point in along(module.frontiers(problem)):
        for values in point:
            assert np.isfinite(values).all()
