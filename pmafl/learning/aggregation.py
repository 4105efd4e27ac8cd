r"""How the server combines the uploads of a round: the paper's mean (equation 6), and three rules that lies
cannot move far.

The mean is summed as uploads come, weighted by samples. The robust rules keep the uploads, as they were sent,
until the round is over. They count every device once: a weight is a number that a device chooses, so a rule
that believed it would withstand nobody.

Yin, Chen, Ramchandran, Bartlett: Byzantine-robust distributed learning. ICML 2018 (median, trimmed mean).
Karimireddy, He, Jaggi: Learning from history for Byzantine robust optimization. ICML 2021 (clipping).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil
from typing import Protocol

import torch
from torch import Tensor

from pmafl.learning.quantise import Payload, decode, part
from pmafl.learning.workload import BLOCK
from pmafl.settings import LearningSettings

CHUNK = 64 * BLOCK  # parameters that are combined at once: what is in between stays in the cache
WHOLE = 1e-9  # 0.1 * 30 is a hair above 3, and must not trim a fourth device


class Aggregate(Protocol):
    """The server's side of a round: takes uploads, in order of their devices, and gives the new extractor."""

    def add(self, payload: Payload, samples: int) -> None: ...

    def result(self) -> Tensor:
        """The new extractor; the old one if nobody took part."""
        ...


class Mean:
    """A running mean of payloads, weighted by samples.

    It sums in float64 and in the order of arrival: memory does not grow with the number of devices, and the
    same order gives the same bits.
    """

    def __init__(self, extractor: Tensor) -> None:
        self._before = extractor
        self._sum = torch.zeros_like(extractor, dtype=torch.float64)
        self._chunk = torch.empty(CHUNK, dtype=torch.float64, device=extractor.device)
        self._samples = 0

    def add(self, payload: Payload, samples: int) -> None:
        for start, stop in _chunks(len(self._sum)):
            values = self._chunk[: stop - start].copy_(decode(part(payload, start, stop)))
            self._sum[start:stop].add_(values, alpha=samples)
        self._samples += samples

    def result(self) -> Tensor:
        return (self._sum / self._samples).float() if self._samples else self._before


Rule = Callable[[list[Payload], Tensor], Tensor]  # all uploads and the extractor before; the one after


class Robust:
    """Keeps the payloads, and combines them by a rule when all are there. Samples do not count."""

    def __init__(self, extractor: Tensor, rule: Rule) -> None:
        self._before, self._rule = extractor, rule
        self._payloads: list[Payload] = []

    def add(self, payload: Payload, samples: int) -> None:
        self._payloads.append(payload)

    def result(self) -> Tensor:
        return self._rule(self._payloads, self._before) if self._payloads else self._before


def aggregate_for(learning: LearningSettings, extractor: Tensor) -> Aggregate:
    """What combines a round's uploads under these settings."""
    rules: dict[str, Rule] = {
        "median": lambda payloads, before: trimmed_mean(payloads, before, trim_share=0.5),
        "trimmed-mean": lambda payloads, before: trimmed_mean(payloads, before, learning.trim_share),
        "clipped-mean": lambda payloads, before: clipped_mean(payloads, before, learning.clip_factor),
    }
    rule = rules.get(learning.aggregation)
    return Robust(extractor, rule) if rule else Mean(extractor)


def trimmed(uploads: int, trim_share: float) -> int:
    """How many uploads are dropped at each end: the share, rounded up, so long as one or two are left.

    >>> [trimmed(uploads, 0.2) for uploads in (1, 2, 3, 5, 6, 10)], trimmed(7, 0.5), trimmed(8, 0.5)
    ([0, 0, 1, 1, 2, 2], 3, 3)
    """
    return min(ceil(trim_share * uploads - WHOLE), (uploads - 1) // 2)


def trimmed_mean(payloads: list[Payload], before: Tensor, trim_share: float) -> Tensor:
    r"""Of every parameter the mean of its values in the middle.

    .. math:: u_i = \frac{1}{n - 2b} \sum_{j=b+1}^{n-b} u_{(j),i}, \qquad b = \lceil \beta n \rceil

    with :math:`u_{(j),i}` the j-th smallest of the n values of parameter i, and :math:`\beta` the
    `trim_share`. A half leaves the one value in the middle, or the two: the median. Up to b hostile uploads
    cannot push a parameter beyond the values of the honest ones.
    """
    drop, combined = trimmed(len(payloads), trim_share), torch.empty_like(before)
    for start, stop in _chunks(len(before)):
        values = torch.stack([decode(part(payload, start, stop)) for payload in payloads])
        middle = values.sort(dim=0).values[drop : len(payloads) - drop]
        combined[start:stop] = middle.mean(dim=0, dtype=torch.float64)
    return combined


def clipped_mean(payloads: list[Payload], before: Tensor, clip_factor: float) -> Tensor:
    r"""The mean of changes, none of which is longer than the usual.

    .. math:: u + \frac{1}{n} \sum_k \min\Bigl(1, \frac{c}{|u_k - u|}\Bigr) (u_k - u), \qquad
              c = \gamma \operatorname{median}_k |u_k - u|

    with u the extractor before and :math:`\gamma` the `clip_factor`. While fewer than half of the uploads are
    hostile, c is no longer than :math:`\gamma` times an honest change.
    """
    before_exactly = before.double()

    def changes() -> Iterator[Tensor]:
        return (decode(payload).double() - before_exactly for payload in payloads)

    lengths = torch.stack([torch.linalg.vector_norm(change) for change in changes()])
    ordered = lengths.sort().values
    longest = clip_factor * (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    shares = torch.where(lengths > longest, longest / lengths, 1.0)
    total = torch.zeros_like(before_exactly)
    for change, share in zip(changes(), shares.tolist(), strict=True):
        total.add_(change, alpha=share)
    return (before_exactly + total / len(payloads)).float()


def _chunks(length: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + CHUNK, length)) for start in range(0, length, CHUNK))
