"""The page of a run: what stays the same in all of its rounds, beside what `story` tells of each."""

from __future__ import annotations

import shlex
from functools import cache
from typing import Any

import numpy as np

from pmafl.page import figures
from pmafl.page.document import render
from pmafl.page.figures import Score
from pmafl.page.story import Story, choose_steps
from pmafl.runs import Run

PAGE = "page.html"

SCORES = {
    "accuracy": Score("Accuracy", "test accuracy (%)", 100.0, "%"),
    "error": Score("Error", "mean absolute error", 1.0, ""),
}

GLOSSARY = {
    "accuracy": "of each device's own model on test samples of its own classes, mean over all devices",
    "worst tenth": "the mean accuracy of the tenth of the devices that score lowest",
    "spread": "the band around the mean: one standard deviation over devices",
    "loss": "cross-entropy on the same test samples, mean over devices",
    "scheduled samples": "training samples on the devices whose updates arrived in the round",
    "gain": "power that arrives at the server, as a part of what the device sends, in decibels",
    "share of the band": "part of the uplink's bandwidth that the device has to itself",
    "clock, power": "CPU frequency and transmit power that the round's orders asked of the device",
    "energy": "for computing and uploading, and for receiving, circuits and connecting where the settings "
    "count them; the budget is what a device may spend per round in the long run",
    "queue": "energy that a device has spent beyond its budget so far; a long queue keeps it out",
    "turns": "part of the rounds so far in which the device was scheduled",
    "optimality gap": "how far the round's objective is above a lower bound that no schedule can beat",
    "seconds": "each round lasts until its last device has uploaded, an empty one until the deadline",
    "joules": "energy of all devices together since the start",
}
ERRORS = {  # where values are predicted, in place of what is said of accuracies
    "error": "mean absolute error of each device's own model, in the targets' unit, mean over all devices",
    "worst tenth": "the mean error of the tenth of the devices that err most",
    "loss": "mean squared error on the same test samples, mean over devices",
}
MEANINGS = {
    "map": "Devices where they stand; rings mark the scheduled, with their share of the band.",
    "division": "Each bar is a scheduled device, as high as its share of the band; the line is the deadline.",
    "accuracy": "Mean over devices, the worst tenth, and the spread over devices (shaded).",
    "loss": "Test loss, mean over devices.",
    "samples": "Training samples on the devices that took part in the round.",
    "energy": "Energy per device and round since the start, against the mean budget.",
    "queues": "How far spending runs ahead of the budgets.",
    "gap": "The round's objective above the best that any schedule could reach.",
    "spread-accuracy": "How many devices have which accuracy.",
    "spread-participation": "How many devices took part how often.",
    "spread-energy": "How many devices spent how much of their budget so far.",
    "story-gain": "Its channel in each round.",
    "story-share": "The rounds it took part in.",
    "story-clock": "CPU clock in its turns.",
    "story-power": "Transmit power in its turns.",
    "story-energy": "What it spent in all, against its budget.",
    "story-queue": "Its energy queue after each round.",
    "story-accuracy": "Its accuracy when it was tested.",
    "story-loss": "Its training loss in its turns.",
}
NOTHING_DRAWN: dict[str, Any] = {"figures": {}, "curves": [], "spreads": [], "stories": []}


def run_page(run: Run) -> str:
    """The page of a run as it stands."""
    rows = run.rows if (run.directory / "rounds.jsonl").exists() or "rows" in vars(run) else []
    story = new_story(run, sum(len(row["scheduled"]) for row in rows))
    part = story.tell(rows)
    return render("run", {"head": head(story), "part": part})


def new_story(run: Run, turns: int) -> Story:
    """A story of the run with room for so many turns of devices, of which none was told yet."""
    settings = run.settings
    every = settings.run.evaluate_every
    return Story(run, choose_steps(settings.fleet.devices, settings.run.rounds, turns, every))


def head(story: Story) -> dict[str, Any]:
    """What stays the same on the page of a run, as long as the story shows the same things."""
    run, world = story.run, story.world
    settings, fleet, shown = run.settings, world.fleet, story.shown
    learns = settings.run.learning == "full"
    score = SCORES["error" if "errors" in story.shows else "accuracy"]
    drawn = (
        NOTHING_DRAWN
        if "rounds" not in story.shows
        else _figures(
            settings.cell.side_m,
            settings.cell.deadline_s,
            settings.run.rounds,
            learns=learns,
            counts_energy=story.counts_energy,
            knows_gain="gains" in story.shows,
            knows_accuracy="scores" in story.shows,
            score=score,
            bounded=story.counts_energy and "bound" in story.shows,
            receives=bool(story.received_s.any()),
        )
    )
    return {
        "name": run.directory.resolve().name or str(run.directory),
        "line": _line(story),
        "rounds": settings.run.rounds,
        "total_devices": fleet.devices,
        "learns": learns,
        "score": score._asdict(),
        "counts_energy": story.counts_energy,
        "federation": story.federation,
        "queue_start_j": settings.policy.queue_start_j,
        "mean_budget_j": float(fleet.budget_j.mean()),
        "devices": {
            "number": shown.astype(np.int32),
            "x_m": world.position_m[0, shown].astype(np.float32),
            "y_m": world.position_m[1, shown].astype(np.float32),
            "received_s": story.received_s[shown].astype(np.float32),
            **{
                name: getattr(fleet, name)[shown].astype(np.float32)
                for name in ("samples", "budget_j", "max_frequency_hz", "max_power_w")
            },
        },
        "steps": vars(story.steps),
        **drawn,
        "meanings": {name: said.replace("accuracy", score.word) for name, said in MEANINGS.items()},
        "glossary": glossary(score.word),
        "notes": _notes(story),
        "settings": settings.to_toml(),
        "again": _again(run),
    }


def glossary(word: str) -> dict[str, str]:
    """What the numbers mean where devices are scored by accuracy, or by error."""
    if word == "accuracy":
        return GLOSSARY
    return {word: ERRORS[word]} | {
        name: ERRORS.get(name, said) for name, said in GLOSSARY.items() if name != "accuracy"
    }


@cache
def _figures(
    side_m: float,
    deadline_s: float,
    rounds: int,
    *,
    learns: bool,
    counts_energy: bool,
    knows_gain: bool,
    knows_accuracy: bool,
    bounded: bool,
    receives: bool,
    score: Score,
) -> dict[str, Any]:
    """The figures of a page, and which of them are what; those of a comparison's runs are the same."""
    curves = figures.curves(score if learns else None, counts_energy, bounded)
    spreads = _spreads(counts_energy, score if knows_accuracy else None)
    stories = figures.device_story(
        rounds, learns, score if knows_accuracy else None, counts_energy, knows_gain
    )
    drawn = {"map": figures.cell_map(side_m), **curves, **spreads, **stories}
    if counts_energy:
        drawn["division"] = figures.division(deadline_s, receives)
    return {
        "figures": figures.items(drawn),
        "curves": list(curves),
        "spreads": list(spreads),
        "stories": list(stories),
    }


def _spreads(counts_energy: bool, score: Score | None) -> dict[str, Any]:
    found = {}
    if score:
        found["spread-accuracy"] = figures.distribution(
            "spread-accuracy", score.title, score.label, figures.BLUE
        )
    found["spread-participation"] = figures.distribution(
        "spread-participation", "Turns", "rounds it took part in (%)", figures.ORANGE
    )
    if counts_energy:
        found["spread-energy"] = figures.distribution(
            "spread-energy", "Energy", "energy spent against the budget (%)", figures.GREEN
        )
    return found


def _line(story: Story) -> str:
    settings = story.run.settings
    words = [f"{settings.fleet.devices:,} devices", settings.data.dataset, f"policy {settings.policy.name}"]
    if settings.run.learning == "full":
        words.append(f"algorithm {settings.learning.algorithm}")
    words.append(f"seed {settings.run.seed}")
    if story.federation:
        words.append("a federation of real devices")
    return " · ".join(words)


def _notes(story: Story) -> list[str]:
    """What a person must know to read the page right: what was left out of it."""
    steps, found = story.steps, []
    if story.shown.size < story.world.fleet.devices:
        found.append(
            f"The page shows {story.shown.size:,} of {story.world.fleet.devices:,} devices, at equal steps."
        )
    if steps.curve > 1:
        found.append(f"Curves have every {_ordinal(steps.curve)} round.")
    if steps.detail > 1:
        found.append(f"The slider stops at every {_ordinal(steps.detail)} round; those between are counted.")
    if steps.table > 1:
        found.append(
            "To keep the page small, gains and accuracies of devices are those of every "
            f"{_ordinal(steps.table)} round; the map shows the last that is known."
        )
    if steps.reasons > 1:
        found.append(f"Why devices were left out is told of every {_ordinal(steps.reasons)} round.")
    if story.federation:
        found.append(
            "Real devices: the places are those of the settings' cell; gains are what devices reported in "
            "evaluated rounds."
        )
    return found


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _again(run: Run) -> list[list[str]]:
    summary = run.summary or {}
    versions = ", ".join(f"{name} {version}" for name, version in summary.get("versions", {}).items())
    command = shlex.join(["pmafl", "run", str(run.directory), "--out", f"{run.directory}-again"])
    return [
        ["command", command],
        ["seed", str(run.settings.run.seed)],
        ["versions", versions or "known when the run is finished"],
        ["without the directory", "save the settings below as settings.toml: pmafl run settings.toml"],
    ]
