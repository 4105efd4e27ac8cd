"""Thousands of damaged settings, problems and traces: each is taken as it is, or refused in one line.

Arrays, archives, run directories and replies of devices are damaged beside the modules that read them.
"""

import json
import random
from contextlib import suppress

import numpy as np
import pytest

from pmafl.errors import InputError, NoAnswer
from pmafl.scheduling import ask, find_policy
from pmafl.scheduling.exchange import answer, read_question, write
from pmafl.settings import load, parse
from pmafl.wireless.cell import load_trace
from pmafl.world import wireless_world

ODD = [
    "nan", "inf", "-inf", "1e400", "-1", "0", "1e-300", "1e300", '""', '"\\u0000"', "[]", "{}", "[[1]]",
    "true", "9" * 30, "9" * 5000, "1979-05-27", '"<script>"', '"dual"', "[1.0, 2.0]", '"/dev/null"', '"[/x]"',
    "{distribution = 'choice', values = []}", "{distribution = 'uniform', low = 2, high = 1}",
    '"package.module:name"',
]  # fmt: skip
JSON_ODD = [
    None,
    True,
    -1,
    0,
    1e-300,
    1e300,
    float("nan"),
    float("inf"),
    "x",
    [],
    {},
    [1],
    10**400,
    1e15,
    1e-40,
]
MOST_DEVICES = 2000  # a fuzzed fleet may be larger; then its world is not built


def refused_in_one_line(call):
    """What a call gives, or None where it was refused as it should be; anything else it raises is a fault."""
    try:
        return call()
    except (InputError, NoAnswer) as error:
        assert "\n" not in str(error)
        assert str(error)
        return None


def damaged(text, rng):
    """A text with one to three lines or characters changed."""
    lines = text.splitlines()
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(lines))
        kind = rng.random()
        if kind < 0.6 and "=" in lines[at]:
            lines[at] = lines[at].split("=")[0] + "= " + rng.choice(ODD)
        elif kind < 0.7:
            del lines[at]
        elif kind < 0.8:
            lines.insert(at, lines[rng.randrange(len(lines))])
        else:
            spot = rng.randrange(len(lines[at]) + 1)
            lines[at] = (
                lines[at][:spot] + chr(rng.choice([0, 34, 61, 91, 123, 200, 0x1F600])) + lines[at][spot:]
            )
    return "\n".join(lines)


@pytest.mark.parametrize("cases", [300, pytest.param(4000, marks=pytest.mark.heavy)])
def test_damaged_settings_are_refused_or_mean_what_they_say(cases):
    rng = random.Random(cases)
    texts = [load(name, {"run.rounds": 3}).to_toml() for name in ("mnist", "cifar10")]
    taken = 0
    for _ in range(cases):
        settings = refused_in_one_line(lambda: parse(damaged(rng.choice(texts), rng)))
        if settings is None:
            continue
        taken += 1
        assert parse(settings.to_toml()) == settings
        if settings.fleet.devices <= MOST_DEVICES and settings.run.rounds <= 1000:
            with suppress(MemoryError):
                refused_in_one_line(lambda settings=settings: wireless_world(settings))
    assert taken > cases / 20


@pytest.mark.parametrize("cases", [300, pytest.param(3000, marks=pytest.mark.heavy)])
def test_damaged_problems_are_refused_or_decided_within_all_limits(cases):
    rng = random.Random(cases)
    policies = [find_policy(name) for name in ("dual", "set-expansion", "ocean", "rs-wel", "all")]
    device = {
        "samples": 600, "cycles_per_sample": 137586.5, "max_frequency_hz": 1e9, "max_power_w": 1.0,
        "channel_gain": 1e-8, "queue_j": 0.3,
    }  # fmt: skip
    cell = {
        "bandwidth_hz": 1e7, "noise_w_per_hz": 3.98e-21, "deadline_s": 2.0, "upload_bits": 8531968,
        "energy_coefficient": 5e-27, "local_iterations": 5, "tradeoff": 0.001,
    }  # fmt: skip
    decided = 0
    for _ in range(cases):
        raw = cell | {"devices": [dict(device) for _ in range(rng.randint(1, 4))]}
        for _ in range(rng.randint(1, 2)):
            where = rng.choice([raw, *raw["devices"]]) if isinstance(raw.get("devices"), list) else raw
            if not isinstance(where, dict):
                continue
            key = rng.choice([*where, "odd"])
            where[key] = rng.choice(JSON_ODD)
            if rng.random() < 0.1:
                where.pop(rng.choice(list(where)))
        text = json.dumps(raw)
        text = text if rng.random() < 0.9 else text[: rng.randrange(len(text))]
        found = refused_in_one_line(lambda text=text: read_question(text))
        if found is None:
            continue
        policy = rng.choice(policies)
        decision = refused_in_one_line(
            lambda policy=policy, found=found: ask(
                policy, found.problem, {}, np.random.default_rng(0), "fuzzed"
            )
        )
        if decision is not None:
            decided += 1
            json.loads(write(answer(found, decision)))
    assert decided > cases / 20


@pytest.mark.parametrize("cases", [100, pytest.param(1000, marks=pytest.mark.heavy)])
def test_damaged_traces_are_refused_or_hold_possible_gains(tmp_path, cases):
    rng = random.Random(cases)
    np.save(tmp_path / "whole.npy", np.full((4, 3), 1e-8))
    np.savetxt(tmp_path / "whole.csv", np.full((4, 3), 1e-8), delimiter=",")
    for _ in range(cases):
        kind = rng.choice(["npy", "csv"])
        content = bytearray((tmp_path / f"whole.{kind}").read_bytes())
        for _ in range(rng.randint(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path = tmp_path / f"damaged.{kind}"
        path.write_bytes(content[: rng.randint(1, len(content))] if rng.random() < 0.2 else content)
        gains = refused_in_one_line(lambda path=path: load_trace(str(path), 4, 3))
        if gains is not None:
            assert gains.shape == (4, 3)
            assert np.all((gains >= 0) & np.isfinite(gains))
