"""The files of a figure: PDF and PNG, the numbers behind it as CSV, and what made it."""

from __future__ import annotations

import json
import tempfile
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pmafl.comparison import Array, csv_text, estimate
from pmafl.errors import InputError
from pmafl.experiments.archive import Kept
from pmafl.experiments.study import (
    Curve,
    Scale,
    Study,
    final,
    history,
    manifest,
    manifest_path,
    summaries,
)
from pmafl.plots import STYLE, save
from pmafl.runs import write_atomically

Read = Callable[[Sequence[Kept], str], Array]
NAMES = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
FINAL = ("accuracy", "loss")
WIRELESS = (
    "scheduled_samples_per_round",
    "scheduled_devices_per_round",
    "energy_per_device_round_j",
    "max_energy_per_device_round_j",
)


def make_directory(results: Path) -> None:
    try:
        results.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=results):
            pass
    except OSError as error:
        raise InputError(f"--results {results}: {error.strerror}; must be a directory to write in") from error


def holds_more(name: str, scale: Scale, results: Path) -> str:
    """Why a place is not to be written: it holds more, or of other settings. Nothing if it does not."""
    now = {"rounds": scale.rounds, "seeds": scale.seeds, "devices": scale.training_devices}
    return made_otherwise(manifest_path(results, name, scale), now, scale.overrides)


def made_otherwise(manifest: Path, now: Mapping[str, int], overrides: Mapping[str, Any]) -> str:
    """What a manifest says more of than is asked for now, or that it has other settings; or nothing."""
    if not manifest.is_file():
        return ""
    known = json.loads(manifest.read_text(encoding="utf-8"))
    for key, amount in now.items():
        if known.get(key, 0) > amount:
            return f"{manifest} was made with {known[key]} {key.replace('_', ' ')}, more than now"
    if (others := known.get("overrides", {})) != json.loads(json.dumps(dict(overrides))):
        return f"{manifest} was made with {in_words(others) or 'the preset as it is'}, unlike now"
    return ""


def check_place(name: str, scale: Scale, results: Path) -> None:
    """Refuse, before anything is run, a place that cannot be written or is to be left."""
    make_directory(results)
    if more := holds_more(name, scale, results):
        raise InputError(f"{more}; give another --results")


def write(study: Study, figure: ModuleType, results: Path, commands: Mapping[str, str]) -> Path:
    """All files of a study; the picture's path."""
    import matplotlib as mpl

    stem = manifest_path(results, study.name, study.scale).with_suffix("")
    with mpl.rc_context(STYLE):
        drawing = figure.draw(study)
        drawing.suptitle(textwrap.fill(title(study), 90), fontsize=11)
        save(drawing, stem.with_suffix(".png"), "pdf")
    tables = {"": _by_round(study), "-final": _finals(study.learned, study.shown, FINAL, final)}
    if study.wireless:
        tables["-wireless"] = _finals(study.alone, study.curves, WIRELESS, summaries)
    for ending, rows in tables.items():
        write_atomically(stem.with_name(f"{stem.name}{ending}.csv"), csv_text(rows).encode())
    write_atomically(stem.with_suffix(".json"), manifest(study, commands).encode())
    return stem.with_suffix(".png")


def title(study: Study) -> str:
    """Figure, data set and scale in one line, with as many seeds as are done."""
    number, dataset = study.name.removeprefix("fig"), study.scale.dataset
    done = {len(study.learned(curve)) for curve in study.shown} or {0}
    return f"Figure {number}, {NAMES[dataset]}, {how_much(study.scale, done)}"


def how_much(scale: Scale, done: Collection[int] = ()) -> str:
    """A scale in words, with the numbers of seeds that are done, or else all."""
    done = done or {scale.seeds}
    fewest, most = min(done), max(done)
    seeds = f"{fewest} to {most} seeds" if fewest < most else f"{most} seed{'s' * (most != 1)}"
    parts = [f"{scale.rounds} rounds", seeds if most else "without learning"]
    parts += [f"training with {scale.devices} devices"] * (scale.fewer_devices != {})
    parts += ["stated training"] * (scale.reading == "stated")
    return ", ".join([*parts, *filter(None, [in_words(scale.overrides)])])


def in_words(overrides: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in overrides.items())


def _by_round(study: Study) -> Iterable[Sequence[Any]]:
    yield ("method", "value", "seeds", "round", *columns(FINAL))
    for curve in study.shown:
        kept = study.learned(curve)
        histories = [history(kept, quantity) for quantity in FINAL]
        for index, number in enumerate(histories[0][0]):
            estimates = (estimate(values[:, index]) for _, values in histories)
            numbers = (part for found in estimates for part in (found.mean, found.half_width))
            yield (curve.method, curve.value, len(kept), int(number), *map(_shown, numbers))


def _finals(
    runs_of: Callable[[Curve], Sequence[Kept]], curves: Sequence[Curve], quantities: Sequence[str], read: Read
) -> Iterable[Sequence[Any]]:
    yield ("method", "value", "options", "seeds", *columns(quantities))
    for curve in curves:
        kept = runs_of(curve)
        estimates = (estimate(read(kept, quantity)) for quantity in quantities)
        numbers = (part for found in estimates for part in (found.mean, found.half_width))
        options = " ".join(f"{k}={v}" for k, v in curve.settings.get("policy.options", {}).items())
        yield (curve.method, curve.value, options, len(kept), *map(_shown, numbers))


def columns(quantities: Iterable[str]) -> list[str]:
    """Heads of means with half-widths."""
    return [f"{quantity}_{part}" for quantity in quantities for part in ("mean", "half_width")]


def _shown(number: float) -> str:
    return "" if np.isnan(number) else f"{number:.6g}"
