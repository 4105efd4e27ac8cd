"""`pmafl plan`: whether federated learning fits a fleet's batteries, and with what settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pmafl.commands import SetOption, assignments, screen

if TYPE_CHECKING:
    from rich.table import Table

    from pmafl.planning import Answer, Forecast

DAYS_PER_YEAR = 365.25
WIDE = 110  # columns of text that goes to a file
MOST_ROWS = 30  # of choices, unless all are asked for

GoalOption = Annotated[
    list[str] | None,
    typer.Option(
        "--goal",
        metavar="TEXT",
        help='"battery >= 2 years", "95% of the devices once a day", "200 turns per device within 30 '
        'days", "samples >= 100000 a day" or "round <= 30 s". May be repeated; all must be met.',
    ),
]
LearningOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--learning",
        metavar="RUN_DIR",
        help="A finished run, or a folder of runs: how accuracy grows with turns. May be repeated.",
    ),
]


def plan(
    source: Annotated[
        str, typer.Argument(metavar="FILE.toml|PRESET", help="Fleet, cell and what is free; or - .")
    ],
    goal: GoalOption = None,
    set_: SetOption = None,
    learning: LearningOption = None,
    all_: Annotated[bool, typer.Option("--all", help="Show every choice, not only the unbeaten.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw the answer.")] = None,
    settings: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Write settings with which pmafl run runs the shown choice."),
    ] = None,
) -> None:
    """Tell who can take part, what each choice brings, how long batteries last, and which choice to take.

    Nothing is trained and no data is needed. The file holds settings as for a run and a section [plan] of
    what is free to choose: deadline_s, rounds_per_day, band_share, budget_j, shared_layers,
    upload_bits_per_parameter, upload_bits; each a number, a list, or {low, high, steps}. The exit code is 1
    if no choice meets the goals.
    """
    import json
    from functools import partial

    from pmafl.display import patiently
    from pmafl.planning import answer, parse_goal, read_curve, read_request
    from pmafl.progress import listening

    goals = [parse_goal(text) for text in goal or []]
    request = read_request(source, assignments(set_))
    curve = read_curve(learning) if learning else None
    with listening(patiently(partial(typer.echo, err=True))):
        found = answer(request, goals, curve)
    if json_:
        typer.echo(json.dumps(found.to_dict(), indent=2, allow_nan=False))
    else:
        console = screen()
        if not console.is_terminal:
            console.width = WIDE
        console.print(choices_table(found, all_))
        for line in sentences(found):
            console.print(line, soft_wrap=True)
        console.print(rings_table(found))
    if plot is not None:
        from pmafl.plots.plan import save_plan

        save_plan(found, plot)
    if settings is not None:
        from pmafl import files

        files.write_atomically(settings, request.settings_of(found.detail.choice).to_toml().encode())
    if goals and found.recommended is None:
        raise typer.Exit(1)


def choices_table(found: Answer, everything: bool = False) -> Table:
    """What choices bring; only those that nothing beats, unless all are asked for."""
    from rich.table import Table

    free = free_names(found)
    has_batteries = found.detail.lives is not None
    shown = [i for i, best in enumerate(found.best) if best or everything or i == found.shown]
    count = len(found.forecasts)
    title = f"{count} choice{'s' if count > 1 else ''}"
    title += "" if everything else f", {sum(found.best)} unbeaten"
    table = Table(title=title, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for name in free:
        table.add_column(FREE[name], justify="right", no_wrap=True)
    batteries = ["battery\nlife"] if has_batteries else []
    accuracy = ["accuracy"] if found.curve else []
    for name in (*MEASURES, *batteries, "air s\n/day", *accuracy):
        table.add_column(name, justify="right", no_wrap=True)
    for index in shown if everything else shown[:MOST_ROWS]:
        one = found.forecasts[index]
        mark = "->" if index == found.recommended else ("*" if index == found.shown else "")
        table.add_row(
            mark,
            *(f"{getattr(one.choice, name):g}" for name in free),
            f"{one.devices_per_round:,.3g}"
            if one.devices_per_round < 100
            else f"{one.devices_per_round:,.0f}",
            f"{one.samples_per_day:,.0f}",
            f"{one.mean_turns_per_day:.3g}",
            millijoules(one.energy_per_device_round_j),
            *([battery_words(one)] if has_batteries else []),
            f"{one.air_time_s_per_day:,.0f}",
            *([_accuracy(found, one)] if found.curve else []),
        )
    if not everything and len(shown) > MOST_ROWS:
        table.caption = f"and {len(shown) - MOST_ROWS} more; --all or --json shows them"
    return table


MEASURES = ("devices\n/round", "samples\n/day", "turns\n/day", "mJ\n/round")  # the last two of a device
FREE = {
    "deadline_s": "deadline\ns",
    "rounds_per_day": "rounds\n/day",
    "band_share": "band",
    "budget_j": "budget\nJ",
    "shared_layers": "shared\nlayers",
    "upload_bits_per_parameter": "bits",
    "upload_bits": "upload\nbits",
}


WORDS = {
    "deadline_s": "{:g} s per round",
    "rounds_per_day": "{:g} rounds per day",
    "band_share": "{:.0%} of the band",
    "budget_j": "a budget of {:g} J",
    "shared_layers": "{} shared layers",
    "upload_bits_per_parameter": "{} bits per parameter",
    "upload_bits": "uploads of {:g} bits",
}


def free_names(found: Answer) -> list[str]:
    """What differs between choices; deadline and rounds per day at least."""
    choices = [one.choice for one in found.forecasts]
    always = ("deadline_s", "rounds_per_day")
    return [name for name in FREE if name in always or len({getattr(c, name) for c in choices}) > 1]


def battery_words(one: Forecast) -> str:
    """First, median and last battery in years or days, each once if they do not differ."""
    import math

    if one.lives is None:
        return ""
    if not math.isfinite(one.lives.first):
        return "for ever"
    unit, days = ("y", DAYS_PER_YEAR) if one.lives.first >= 2 * DAYS_PER_YEAR else ("d", 1.0)
    numbers = dict.fromkeys(f"{life / days:.3g}" for life in one.lives)
    return f"{'/'.join(numbers)} {unit}"


def millijoules(energy_j: float) -> str:
    """Three digits, and no exponent."""
    return f"{energy_j * 1e3:.3g}" if energy_j < 0.9995 else f"{energy_j * 1e3:,.0f}"


def _accuracy(found: Answer, one: Forecast) -> str:
    expected = found.expectation(one)
    if expected is None:
        return ""
    spread = f" ± {expected.over_devices:.1%}" if expected.over_devices is not None else ""
    return f"{expected.accuracy:.1%}{spread}" + (
        " (beyond what was measured)" if expected.extrapolates else ""
    )


def sentences(found: Answer) -> Iterator[str]:
    """The choice that is shown, what it means, and what more of anything would bring."""
    from pmafl.planning import REASONS, in_words

    detail, reasons = found.detail, found.feasibility
    settings = ", ".join(WORDS[name].format(getattr(detail.choice, name)) for name in free_names(found))
    if found.recommended is not None:
        yield f"recommended (->): {settings}"
    elif found.goals:
        yield f"no choice meets the goals; the nearest (*): {settings}"
    else:
        yield f"most samples (*): {settings}; --goal has one recommended"
    for goal in found.goals:
        margin = goal.margin(detail)
        verdict = f"met, with {margin:.0%} to spare" if goal.is_met(detail) else f"missed by {-margin:.0%}"
        yield f'  "{goal.text}": {verdict}; {goal.show(detail)}'
    binding = {name: part for name, part in found.slack.items() if part > 0}
    if binding:
        words = ", ".join(f"{part:.0%} of the {name}" for name, part in binding.items())
        yield f"  the goals still hold with {words}, each alone"
    total = round(detail.optimum.devices.count)
    yield f"{reasons.count(''):,} of {total:,} devices take part"
    for name, why in REASONS.items():
        if count := reasons.count(name):
            yield f"  {count:,} do not ({name}): {why}"
    if detail.lives is not None and detail.lives_without is not None:
        yield (
            f"the median battery lasts {in_words(detail.lives.median)} with learning, "
            f"{in_words(detail.lives_without.median)} without"
        )
    yield from found.sentences()


def rings_table(found: Answer) -> Table:
    """What happens near the server and far from it."""
    from rich.table import Table

    from pmafl.planning import REASONS, in_words

    rings = found.feasibility.rings()
    given = [name for name in REASONS if any(ring[name] for ring in rings)]
    table = Table(title="by distance", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    left_out = [f"not: {name}" for name in given]
    columns = ["metres", "devices", "take part", *left_out, *MEASURES[2:]]
    has_batteries = any("median_battery_days" in ring for ring in rings)
    for column in columns + ["median battery"] * has_batteries:
        table.add_column(column, justify="right")
    for ring in rings:
        battery = [in_words(ring["median_battery_days"])] if "median_battery_days" in ring else []
        table.add_row(
            f"{ring['from_m']:.0f} to {ring['to_m']:.0f}",
            f"{ring['devices']:,}",
            f"{ring['taking_part']:,}",
            *(f"{ring[name]:,}" for name in given),
            f"{ring['turns_per_day']:.3g}",
            millijoules(ring["energy_per_device_round_j"]),
            *battery,
        )
    return table
