import numpy as np
import pytest

from pmafl.scheduling.market import count_willing, offers, open_market
from tests.problems import cell_problem, wide_problem
from tests.rounding import ROUNDING


def markets(devices=40, count=30):
    rng = np.random.default_rng(0)
    for number in range(count):
        make = wide_problem if number % 2 else cell_problem
        market = open_market(make(rng, devices))
        if market.device.size:
            yield market


def at_price(market, log_price):
    return offers(market, market.frontier.log_end.copy(), log_price)


def test_a_device_breaks_even_at_its_limit():
    for market in markets():
        for position, log_limit in enumerate(market.log_limit):
            _, loss = at_price(market, log_limit)
            assert loss[position] == pytest.approx(0, abs=1e-9 * market.value[position])


def test_devices_are_willing_below_their_limit_and_not_above():
    for market in markets():
        for log_price in np.linspace(market.log_limit[-1] - 1, market.log_limit[0] + 1, 9):
            _, loss = at_price(market, log_price)
            clear = abs(market.log_limit - log_price) > 1e-6
            assert np.array_equal((loss < 0)[clear], (market.log_limit > log_price)[clear])


def test_demand_falls_with_the_price():
    for market in markets():
        demand = [at_price(market, log_price)[0] for log_price in np.linspace(-10, 10, 21)]
        assert np.all(np.diff(demand, axis=0) <= ROUNDING)


def test_the_willing_fit_and_one_more_does_not():
    for market in markets():
        willing, _ = count_willing(market)
        for count in (willing, willing + 1):
            if 0 < count <= market.device.size:
                share, _ = at_price(market, market.log_limit[count - 1])
                used = share[:count].sum()
                assert used <= 1 + ROUNDING if count == willing else used >= 1 - ROUNDING
