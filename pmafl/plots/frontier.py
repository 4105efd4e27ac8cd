"""Accuracy against energy, a point per method, with those marked that nothing beats in both.

Names stand where there is room for them, so that none hides a point or another name. Where most methods lie
close together at the top, a second panel shows them larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from pmafl.plots.style import COLOURS, STYLE, figure
from pmafl.wireless import Array

FEW_TIMES = 8.0  # from which on a scale is logarithmic
CLOSE = 0.95  # of the best: who is above is shown larger, if that helps
DISTANCES = (9.0, 14.0, 20.0, 28.0, 38.0, 50.0, 64.0, 80.0, 100.0, 125.0)  # of a name, in points
DIRECTIONS = [np.array([np.cos(angle), np.sin(angle)]) for angle in np.linspace(0, 2 * np.pi, 17)[:-1]]
LINE_FROM = 12.0  # points: names that stand further away have a line to their point
MARKER = 7.0
CLEAR = 4.0  # pixels between a name and a bar, whose caps are that wide
MARGINS = (0.16, 0.12)  # of a panel, beside what it shows


@dataclass(frozen=True)
class Point:
    """A method: accuracy in percent and energy in joules, each with the half-width of its interval."""

    name: str
    energy_j: float
    accuracy: float
    energy_half_width_j: float
    accuracy_half_width: float
    unbeaten: bool

    @property
    def accuracy_errors(self) -> tuple[float, float]:
        """Down and up, within what an accuracy can be."""
        width = float(np.nan_to_num(self.accuracy_half_width))
        return min(width, self.accuracy), min(width, 100 - self.accuracy)

    @property
    def energy_errors_j(self) -> tuple[float, float]:
        width = float(np.nan_to_num(self.energy_half_width_j))
        return min(width, 0.9 * self.energy_j), width


def draw_frontier(points: Sequence[Point], title: str) -> Figure:
    """The picture."""
    with mpl.rc_context(STYLE):
        points = _merged(points)
        close = _close(points)
        drawing, axes = figure(columns=2 if close else 1, width=6.4, height=5.4)
        panels = [(axes[0, 0], points, [p for p in points if p not in close])]
        if close:
            panels.append((axes[0, 1], close, close))
        for place, shown, _ in panels:
            _panel(place, shown, points)
        if close:
            _mark_close(axes[0, 0], axes[0, 1], len(close))
        drawing.suptitle(title, fontsize=11)
        drawing.draw_without_rendering()  # settles the layout, in which names find their places
        drawing.set_layout_engine("none")
        for place, shown, named in panels:
            _name(place, shown, named)
        return drawing


def _merged(points: Sequence[Point]) -> list[Point]:
    """Methods that are the same to the last digit as one point with all their names."""
    groups: dict[tuple[float, float], list[Point]] = {}
    for point in points:
        groups.setdefault((point.energy_j, point.accuracy), []).append(point)
    return [replace(same[0], name=", ".join(point.name for point in same)) for same in groups.values()]


def _close(points: Sequence[Point]) -> list[Point]:
    """Those near the best, where they are many and others are far below."""
    best = max(point.accuracy for point in points)
    close, bottom = list[Point](), CLOSE * best
    while len(found := [point for point in points if point.accuracy >= bottom]) > len(close):
        close, bottom = found, _bottom(found)
    low = min(point.accuracy for point in points)
    spread = best - min(point.accuracy for point in close)
    return close if 3 <= len(close) < len(points) and spread < 0.5 * (best - low) else []


def _bottom(points: Sequence[Point]) -> float:
    """Of a panel that shows these: whatever else is above is in its frame too."""
    low = min(point.accuracy - point.accuracy_errors[0] for point in points)
    high = max(point.accuracy + point.accuracy_errors[1] for point in points)
    return low - MARGINS[1] * (high - low)


def _panel(axes: Axes, points: Sequence[Point], everyone: Sequence[Point]) -> None:
    for unbeaten, colour in ((False, COLOURS[0]), (True, COLOURS[1])):
        some = [point for point in points if point.unbeaten is unbeaten]
        if some:
            axes.errorbar(
                [p.energy_j for p in some],
                [p.accuracy for p in some],
                np.transpose([p.accuracy_errors for p in some]),
                np.transpose([p.energy_errors_j for p in some]),
                fmt="o",
                color=colour,
                markersize=MARKER if unbeaten else MARKER - 1,
                markerfacecolor=colour if unbeaten else "white",
                elinewidth=0.8,
                capsize=2,
                zorder=3 if unbeaten else 2,
                label="nothing beats it in both" if unbeaten else "another has more accuracy for less energy",
            )
    axes.plot(
        *np.transpose(_front(points)),
        color=COLOURS[1],
        linewidth=1,
        alpha=0.6,
        zorder=1,
    )
    energies = [p.energy_j for p in points]
    if 0 < FEW_TIMES * min(energies) < max(energies):
        axes.set_xscale("log")
    axes.margins(*MARGINS)
    low, high = axes.get_ylim()
    axes.set_ylim(low, min(high, 100 + 0.04 * (high - low)))
    axes.set(xlabel="energy per device in the whole run (J)", ylabel="final accuracy, mean over devices (%)")
    if len(points) == len(everyone):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), fontsize=8, ncols=1)


def _front(points: Sequence[Point]) -> list[tuple[float, float]]:
    """The corners of the step line along the points that nothing beats."""
    front = sorted((p.energy_j, p.accuracy) for p in points if p.unbeaten)
    steps = [
        corner for (_, low), (energy, high) in pairwise(front) for corner in ((energy, low), (energy, high))
    ]
    return [*front[:1], *steps]


def _mark_close(whole: Axes, close: Axes, count: int) -> None:
    """A frame around what the second panel shows."""
    (left, right), (low, high) = close.get_xlim(), close.get_ylim()
    whole.add_patch(
        Rectangle((left, low), right - left, high - low, fill=False, linestyle=":", edgecolor="0.4")
    )
    close.set_title(f"the {count} in the dotted frame", fontsize=9)


def _name(axes: Axes, points: Sequence[Point], named: Sequence[Point]) -> None:
    """Write names beside their points, each where it covers least; the most crowded choose first."""
    drawing = axes.get_figure(root=True)
    assert drawing is not None, "axes stand in a figure"
    pixels = drawing.dpi / 72
    centres = axes.transData.transform([(p.energy_j, p.accuracy) for p in points])
    reach = 0.7 * MARKER * pixels
    room = Room(
        frame=np.array(axes.get_window_extent().extents),
        taken=[np.concatenate([centre - reach, centre + reach]) for centre in centres],
        bars=[_thin(axes, line) for point in points for line in _crosses(point)]
        + [_thin(axes, line) for line in pairwise(_front(points))],
        lines=[],
    )
    crowded = [np.sort(np.hypot(*(centres - centre).T))[:4].sum() for centre in centres]
    for index in sorted(range(len(points)), key=lambda index: crowded[index]):
        point = points[index]
        if point not in named:
            continue
        note = axes.annotate(
            point.name,
            (point.energy_j, point.accuracy),
            xytext=(0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=8,
        )
        half = np.array(note.get_window_extent().size) / 2
        offset, far = room.best(centres[index], half, pixels)
        note.set_position((float(offset[0] / pixels), float(offset[1] / pixels)))
        if far:
            edge = offset - np.clip(offset, -half, half)
            line = centres[index] + np.linspace(0, 1, 12)[:, None] * edge
            room.lines.append(line)
            axes.annotate(
                "",
                (point.energy_j, point.accuracy),
                xytext=(float(edge[0] / pixels), float(edge[1] / pixels)),
                textcoords="offset points",
                arrowprops={"arrowstyle": "-", "color": "0.5", "linewidth": 0.6, "shrinkB": 3, "shrinkA": 1},
                zorder=1,
            )
        middle = centres[index] + offset
        room.taken.append(np.concatenate([middle - half, middle + half]))


@dataclass
class Room:
    """Where names may stand, in pixels; boxes are left, bottom, right, top.

    Attributes:
        taken: markers and names that have their place.
        bars: error bars and the front, which a name may cross if it must.
        lines: points on the lines from names to their markers.
    """

    frame: Array
    taken: list[Array]
    bars: list[Array]
    lines: list[Array]

    def best(self, centre: Array, half: Array, pixels: float) -> tuple[Array, bool]:
        """The offset from a marker at which a name of this half size is best off, and whether that is far."""
        found, least, nearest = np.zeros(2), np.inf, DISTANCES[0]
        for distance in DISTANCES:
            for direction in DIRECTIONS:
                offset = direction * distance * pixels + np.clip(1.5 * direction, -1, 1) * half
                cost = self._cost(centre, offset, half) + 0.004 * distance
                if cost < least:
                    found, least, nearest = offset, cost, distance
            if least <= 0.004 * distance:  # nothing further away can be better
                break
        return found, nearest > LINE_FROM

    def _cost(self, centre: Array, offset: Array, half: Array) -> float:
        middle = centre + offset
        box = np.concatenate([middle - half, middle + half])
        area = float(4 * half.prod())
        inside = np.concatenate([box[:2] - self.frame[:2], self.frame[2:] - box[2:]])
        cost = 20.0 * float((inside < 0).any())
        cost += 10 * float(_overlaps(box, self.taken).sum()) / area
        cost += float((_overlaps(box, self.bars) > 0).sum())
        line = centre + np.linspace(0.2, 1, 12)[:, None] * (offset - np.clip(offset, -half, half))
        cost += float(_within(line, np.array(self.taken)).mean(axis=1).sum())
        crossed = [_within(other, box[None]).any() for other in self.lines]
        return cost + 3.0 * float(sum(crossed))


def _crosses(point: Point) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """The two error bars of a point, from end to end."""
    x, y = point.energy_j, point.accuracy
    (left, right), (down, up) = point.energy_errors_j, point.accuracy_errors
    return [((x - left, y), (x + right, y)), ((x, y - down), (x, y + up))]


def _thin(axes: Axes, line: tuple[tuple[float, float], tuple[float, float]]) -> Array:
    """A line across or up as a box, with what names keep clear of it."""
    ends = axes.transData.transform(line)
    return np.concatenate([ends.min(axis=0) - CLEAR, ends.max(axis=0) + CLEAR])


def _overlaps(box: Array, others: Sequence[Array]) -> Array:
    """Area that a box shares with each of some others."""
    several = np.reshape(others, (-1, 4))
    sides = np.minimum(box[2:], several[:, 2:]) - np.maximum(box[:2], several[:, :2])
    return np.asarray(np.clip(sides, 0, None).prod(axis=1))


def _within(points: Array, boxes: Array) -> Array:
    """Which points lie in which boxes, a row per box."""
    several = boxes[:, None]
    return np.asarray(((points > several[..., :2]) & (points < several[..., 2:])).all(axis=2))
