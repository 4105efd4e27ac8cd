"""The page of a plan, as `pmafl plan --json` wrote it: sliders over the choices, the best, who takes part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from bokeh.models import BasicTicker, ColorBar, HoverTool, LinearColorMapper, NumeralTickFormatter
from bokeh.palettes import Cividis256

from pmafl import files
from pmafl.errors import InputError
from pmafl.page import figures

MEASURES = {  # of a choice: what it is called, with its unit
    "samples_per_day": "samples per day",
    "battery_days": "first battery empty after (days)",
    "devices_per_round": "devices per round",
    "turns_per_device_day": "turns per device and day",
    "energy_per_device_round_j": "energy per device and round (J)",
    "air_time_s_per_day": "air time per day (s)",
    "band_used": "part of the band in use (%)",
    "accuracy": "accuracy at the end (%)",
}
FACTORS = {"band_used": 100.0, "accuracy": 100.0}
NAMES = {
    "deadline_s": "deadline (s)",
    "rounds_per_day": "rounds per day",
    "band_share": "part of the band",
    "budget_j": "budget per round (J)",
    "shared_layers": "shared layers",
    "upload_bits_per_parameter": "bits per parameter",
    "upload_bits": "upload (bits)",
}
GLOSSARY = {
    "unbeaten": "no other choice is better in samples per day, battery life and time of a round at once",
    "battery life": "until the first battery of the fleet is empty, sleep and the device's own job counted",
    "turn": "a round in which a device takes part",
    "rings": "around the server, with equally many devices in each",
}


def plan_data(path: Path) -> dict[str, Any]:
    """Everything on the page of a plan."""
    try:
        plan = json.loads(files.read_bytes(path))
        choices = [_choice(entry) for entry in plan["choices"]]
        detail = plan["detail"]
        rings = [_ring(ring) for ring in detail["rings"]]
        widest_m = max((float(ring["to_m"]) for ring in detail["rings"]), default=1.0)
        free = list(dict.fromkeys(name for choice in choices for name in choice["choice"]))
        data = {
            "name": f"Plan: {path.name}",
            "line": f"{int(plan['devices']):,} devices, {len(choices)} choices, {float(plan['days']):g} days",
            "free": [
                [name, NAMES.get(name, name), sorted({c["choice"][name] for c in choices})] for name in free
            ],
            "choices": choices,
            "recommended": plan["recommended"],
            "shown": int(plan["shown"]),
            "goals": [[str(g["goal"]), bool(g["met"]), str(g["reached"])] for g in plan["goals"]],
            "taking_part": int(detail["taking_part"]),
            "devices": int(plan["devices"]),
            "unable": [[int(n), str(detail["reasons"].get(k, k))] for k, n in detail["unable"].items()],
            "rings": rings,
            "prices": [str(sentence) for sentence in detail["prices_in_words"]],
            "slack": [[str(name), float(part)] for name, part in detail["goals_hold_down_to"].items()],
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"{type(error).__name__}: {error!s:.90}"
        raise InputError(f"{path!s:.200} is no plan, as pmafl plan --json writes it ({what})") from None
    measures = [name for name in MEASURES if any(c["measures"][name] is not None for c in choices)]
    return {
        **data,
        "measures": [[name, MEASURES[name]] for name in measures],
        "figures": figures.items({"front": _front(), "rings": _rings(widest_m)}),
        "glossary": GLOSSARY,
    }


def _choice(entry: dict[str, Any]) -> dict[str, Any]:
    measures: dict[str, float | None] = {}
    for name in MEASURES:
        value = entry.get(name)
        if isinstance(value, dict):  # lives of batteries, or what to expect of learning
            value = value.get("first", value.get("mean", value.get("accuracy")))
        measures[name] = None if value is None else FACTORS.get(name, 1.0) * float(value)
    return {
        "choice": {str(name): float(value) for name, value in entry["choice"].items()},
        "measures": measures,
        "best": bool(entry["best"]),
        "meets_goals": entry.get("meets_goals"),
    }


def _ring(ring: dict[str, Any]) -> dict[str, float | None]:
    names = ("from_m", "to_m", "devices", "taking_part", "turns_per_day", "energy_per_device_round_j")
    found: dict[str, float | None] = {name: float(ring[name]) for name in names}
    days = ring.get("median_battery_days")
    return found | {"median_battery_days": None if days is None else float(days)}


def _front() -> Any:
    """Every choice as a point; `plan.js` sets what the axes are."""
    drawing = figures.blank("front", "What the choices bring", "", "", 420)
    drawn = {}
    style: dict[str, Any] = {"size": 10, "line_color": figures.BLUE, "line_width": 1.5}
    for name, label, more in (
        ("beaten", "beaten by another", {**style, "fill_alpha": 0.0}),
        ("best", "unbeaten", {**style, "fill_color": figures.BLUE}),
        ("recommended", "to take", {**style, "marker": "star", "size": 20, "fill_color": figures.YELLOW}),
        ("chosen", "chosen", {"size": 26, "line_color": figures.PINK, "line_width": 3, "fill_alpha": 0.0}),
    ):
        drawn[label] = [drawing.scatter("x", "y", source=figures.source(name, "x", "y", "said"), **more)]
    points = [drawn["beaten by another"][0], drawn["unbeaten"][0]]
    drawing.add_tools(HoverTool(renderers=points, tooltips=[("", "@said"), ("", "@x"), ("", "@y")]))
    figures.legend(drawing, drawn)
    for axis in (drawing.xaxis, drawing.yaxis):
        axis.formatter = NumeralTickFormatter(format="0,0.[0000]")
    return drawing


def _rings(widest_m: float) -> Any:
    """The cell in rings, each in the colour of how much of it takes part."""
    drawing = figures.blank("rings", "Who can take part", "metres", "metres", 460, match_aspect=True)
    drawing.xaxis.ticker = BasicTicker(desired_num_ticks=4)  # long numbers
    corners = np.array([-widest_m, widest_m]) * 1.05
    drawing.scatter(corners, corners, size=1, alpha=0)
    mapper = LinearColorMapper(palette=Cividis256, low=0, high=100)
    columns = ("inner", "outer", "share", "devices", "turns", "energy")
    annuli = drawing.annulus(
        0,
        0,
        inner_radius="inner",
        outer_radius="outer",
        source=figures.source("annuli", *columns),
        fill_color={"field": "share", "transform": mapper},
        line_color="#888888",
    )
    drawing.scatter([0], [0], marker="triangle", size=14, fill_color=figures.GREEN, line_color="white")
    tooltips = [
        ("from (m)", "@inner{0}"),
        ("to (m)", "@outer{0}"),
        ("devices", "@devices{0,0}"),
        ("take part (%)", "@share{0.[0]}"),
        ("turns per day", "@turns{0.[00]}"),
        ("J per round", "@energy{0.[0000]}"),
    ]
    drawing.add_tools(HoverTool(renderers=[annuli], tooltips=tooltips))
    bar = ColorBar(color_mapper=mapper, height=12, padding=4, margin=4, title="devices that take part (%)")
    drawing.add_layout(bar, "below")
    return drawing
