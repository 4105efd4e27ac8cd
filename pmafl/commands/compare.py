"""`pmafl compare`: a grid of policies, algorithms, settings and seeds, as a table and a plot."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pmafl.commands import (
    AddressOption,
    EngineOption,
    SetOption,
    SourceArgument,
    WorkersOption,
    assignments,
    screen,
)
from pmafl.errors import InputError
from pmafl.settings import parse_assignment

ALIASES = {"policy": "policy.name", "algorithm": "learning.algorithm"}

VaryOption = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="KEY=A,B,...",
        help="Vary a setting, policy or algorithm, perhaps with options, as in "
        "policy=uniform:count=5,dual; may be repeated.",
    ),
]


def compare(
    source: SourceArgument = "mnist",
    vary: VaryOption = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, from run.seed on.")] = 3,
    set_: SetOption = None,
    out: Annotated[Path, typer.Option(help="Directory of the comparison; done runs in it are kept.")] = Path(
        "runs/compare"
    ),
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    address: AddressOption = None,
) -> None:
    """Run every combination of the varied settings for every seed, and compare them pair by pair.

    The settings come from a preset, a TOML file, a run directory, or - for standard input. Presets that
    train: mnist and cifar10 (the paper's), watch (twenty smartwatches). Fleets whose rounds are scheduled
    without training: tracker, sensor, phone.
    """
    from pmafl import comparison, plots
    from pmafl.display import comparison_tables, running, warn
    from pmafl.settings import load

    varied, overrides = variations(vary), assignments(set_)
    first_seed = load(source, overrides).run.seed
    grid = comparison.grid(source, overrides, varied, range(first_seed, first_seed + seeds), out)
    comparison.check(grid, engine)
    comparison.write_grid(grid, out)
    with running("runs", engine, workers, address) as run:
        run(grid)
    rows = comparison.tabulate(grid)
    (out / "table.csv").write_text(comparison.to_csv(rows), encoding="utf-8")
    (out / "table.tex").write_text(comparison.to_latex(rows), encoding="utf-8")
    picture = plots.plot_comparison(rows, out / "comparison.png")
    plots.plot_curves(grid, out / "curves.png")
    console = screen()
    console.print(*comparison_tables(rows, console.width))
    warn(console, [*comparison.diverged(grid), *comparison.broken_budgets(grid)])
    console.print(
        f"tables, plots and {comparison.INDEX}, which run is where, are in {out}; "
        f"start with {picture}, or with pmafl view {out}",
        soft_wrap=True,
    )


def variations(texts: list[str] | None) -> dict[str, list[Any]]:
    """Varied keys and their values from the ``--vary`` options."""
    from pmafl.comparison import split_outside, with_options

    found: dict[str, list[Any]] = {}
    for text in texts or []:
        key, equals, values = text.partition("=")
        if not equals or not values:
            raise InputError(f"--vary {text!r}: must be KEY=A,B,..., for example policy=dual,ocean")
        key = ALIASES.get(key, key)
        if key in found:
            raise InputError(f"--vary {text!r}: {key} is varied already; give all its values at once")
        found[key] = [parse_assignment(f"{key}={value}")[1] for value in split_outside(values, ",")]
        for value in found[key]:
            with_options(key, value)  # refuses what is no name with options
        if len(set(map(str, found[key]))) < len(found[key]):
            raise InputError(f"--vary {text!r}: names a value twice")
    return found
