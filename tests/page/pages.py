"""Runs to look at, and what their pages carry."""

import base64
import gzip
import json
import re
from pathlib import Path

import numpy as np

import pmafl

RESULTS = Path(pmafl.__file__).parent.parent / "results"
SMALL = {
    "run.learning": "none",
    "run.rounds": 6,
    "fleet.devices": 15,
    "fleet.samples": 300,
    "cell.bandwidth_hz": 2e6,  # too narrow for all of them
    "policy.name": "dual",
}

PLAN = {  # as `pmafl plan --json` writes it
    "devices": 10,
    "days": 365.0,
    "goals": [
        {
            "goal": "battery >= 2 years",
            "met": True,
            "margin": 0.2,
            "reached": "the first battery lasts 2.46 years",
        }
    ],
    "recommended": 0,
    "shown": 0,
    "choices": [
        {
            "choice": {"deadline_s": deadline_s, "rounds_per_day": 24.0},
            "devices_per_round": 2.0,
            "samples_per_day": samples,
            "turns_per_device_day": 1.0,
            "energy_per_device_round_j": 0.01,
            "energy_per_turn_j": 0.1,
            "battery_days": {"first": days, "median": days, "last": days},
            "battery_days_without_learning": None,
            "air_time_s_per_day": 3.0,
            "band_used": used,
            "accuracy": None,
            "best": True,
            "meets_goals": days > 800,
        }
        for deadline_s, samples, days, used in ((1.0, 1000.0, 900.0, 0.5), (3.0, 2000.0, 700.0, 1.0))
    ],
    "detail": {
        "taking_part": 7,
        "unable": {"power": 3},
        "reasons": {"power": "too far away"},
        "rings": [
            {
                "from_m": 1.0,
                "to_m": 100.0,
                "devices": 10,
                "taking_part": 7,
                "turns_per_day": 1.0,
                "energy_per_device_round_j": 0.01,
            }
        ],
        "prices_in_words": ["10% more band: 3% more samples"],
        "goals_hold_down_to": {"band": 0.5},
    },
}


def small_run(directory, **more):
    """A finished run without learning, in less than a second."""
    settings = pmafl.load_settings("mnist", SMALL | more)
    pmafl.create_run(directory, settings)
    pmafl.execute_run(directory)
    return directory


def data_of(html):
    """The data in a page, as its script sees them."""
    text = re.search(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', html)[1]
    return unpack(base64.b64decode(text))


def unpack(packed):
    whole = gzip.decompress(packed)
    length = int.from_bytes(whole[:8], "little")

    def arrays(value):
        if set(value) != {"$"}:
            return value
        offset, size, kind = value["$"]
        return np.frombuffer(whole, kind, size, 8 + length + offset)

    return json.loads(whole[8 : 8 + length], object_hook=arrays)
