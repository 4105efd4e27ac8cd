"""Runs to look at, and what their pages carry."""

import base64
import gzip
import json
import re

import numpy as np

import pmafl

SMALL = {
    "run.learning": "none",
    "run.rounds": 6,
    "fleet.devices": 15,
    "fleet.samples": 300,
    "cell.bandwidth_hz": 2e6,  # too narrow for all of them
    "policy.name": "dual",
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
