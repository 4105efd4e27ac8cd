"""Named, independent random streams of one seed.

A stream is addressed by name and index instead of being advanced: round 7's fading is
``stream(seed, "fading", 7)`` whoever asks, in whatever order, before or after a resume. Changing the policy
or the algorithm therefore cannot change the channels or the data split, and no random state is ever saved.
"""

import zlib

import numpy as np

NAMES = ("placement", "fleet", "fading", "partition", "weights", "batches", "policy", "curvature", "tuning")


def stream(seed: int, name: str, *index: int) -> np.random.Generator:
    """The generator of the stream `name` at `index` (for example round and device) under `seed`.

    >>> float(stream(1, "fading", 3).random()) == float(stream(1, "fading", 3).random())
    True
    """
    if name not in NAMES:
        raise KeyError(f"no random stream is called {name!r}; the streams are {', '.join(NAMES)}")
    key = (zlib.crc32(name.encode()), *index)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
