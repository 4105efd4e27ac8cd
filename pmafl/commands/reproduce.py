"""`pmafl reproduce`: the paper's figures and the table of its claims."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pmafl.commands import AddressOption, EngineOption, SetOption, WorkersOption, assignments, command_line
from pmafl.errors import InputError

if TYPE_CHECKING:
    from pmafl.experiments.making import Where
    from pmafl.experiments.sensitivity import Amount
    from pmafl.experiments.study import Scale

RESULTS = Path("results")
FROM_WHAT_IS_KEPT, USED_BY_ALL = {"claims", "figures"}, {"what", "results"}
OF_FIGURES = {"dataset", "devices", "reading"}  # the questions of sensitivity say these themselves
What = Literal["fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "all", "figures", "claims", "sensitivity"]


def reproduce(
    context: typer.Context,
    what: Annotated[
        What,
        typer.Argument(
            metavar="FIGURE|all|figures|claims|sensitivity",
            help="fig2 to fig7 or all of them; sensitivity: what the results hinge on; figures (these and "
            "the page of sensitivity) or claims: made again from what is kept, in seconds.",
        ),
    ],
    dataset: Annotated[
        Literal["mnist", "cifar10"] | None,
        typer.Option(help="Only this data set; default mnist (cifar10 for fig4), and both for all."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=0, help="Seeds of the runs that learn; 0: nothing learns.")] = 3,
    wireless_seeds: Annotated[
        int, typer.Option(min=1, help="Seeds of energy and scheduled samples, which need no learning.")
    ] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of every run.")] = 100,
    devices: Annotated[
        int | None,
        typer.Option(
            min=2, help="Train with fewer devices, of as many samples each; what needs no learning keeps all."
        ),
    ] = None,
    reading: Annotated[
        Literal["chosen", "stated"],
        typer.Option(help="Training as the presets choose it, or with the numbers that the paper states."),
    ] = "chosen",
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Run these curves alone, as in 'pma, 10 of *' or '!rs-wel*', or these questions of "
            "sensitivity, as in 'ocean, *'; may be repeated."
        ),
    ] = None,
    set_: SetOption = None,
    out: Annotated[Path, typer.Option(help="Directory of the runs; done runs in it are kept.")] = Path(
        "runs/reproduce"
    ),
    results: Annotated[
        Path | None,
        typer.Option(
            help="Directory of figures, CSV and claims; default results, "
            "or OUT/results where that holds more, or other settings."
        ),
    ] = None,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    address: AddressOption = None,
) -> None:
    """Run what a figure of the paper shows, or go on with it, keep what came out, and draw it."""
    from pmafl import comparison
    from pmafl.experiments import FIGURES, figure_module, report
    from pmafl.experiments.making import draw_again, make, written
    from pmafl.experiments.sensitivity import Amount, known_amount
    from pmafl.experiments.study import Scale, check_patterns, planned

    _refuse_unused(context, what)
    if what == "claims":
        return _write_claims(results or RESULTS)
    if what == "figures":
        for sentence in draw_again(results or RESULTS):
            typer.echo(sentence)
        known = known_amount(results or RESULTS)
        return _write_sensitivity(results or RESULTS, known) if known else None
    if what == "sensitivity":
        amount = Amount(seeds, wireless_seeds, rounds, assignments(set_))
        return _ask(amount, only or [], out, results, (engine, workers, address))
    chosen = []
    for name in FIGURES if what == "all" else [what]:
        possible = figure_module(name).DATASETS
        wanted = [dataset] if dataset else possible if what == "all" else possible[:1]
        chosen += [
            (name, one)
            for one in wanted
            if one in possible
            and (reading == "chosen" or one == "cifar10")
            and (seeds or figure_module(name).SCHEDULING)
        ]
    if not chosen:
        asked = f"--dataset {dataset or 'mnist'} --reading {reading} --seeds {seeds}"
        raise InputError(f"{what} has nothing for {asked}")
    scales = {
        (name, one): Scale(one, reading, seeds, wireless_seeds, rounds, devices, assignments(set_))
        for name, one in chosen
    }
    curves = {(name, one): figure_module(name).curves(scale) for (name, one), scale in scales.items()}
    check_patterns(only or [], dict.fromkeys(curve.name for each in curves.values() for curve in each))
    places, jobs = {}, []
    for (name, one), scale in scales.items():
        place = results or RESULTS
        if results is None and (more := report.holds_more(name, scale, place)):
            place = out / "results"
            typer.echo(f"{more}, and is kept; this goes to {place}")
        report.check_place(name, scale, place)
        places[name, one] = place
        jobs += planned(curves[name, one], scale, out, figure_module(name).SCHEDULING)
    comparison.check(jobs, engine)
    for (name, one), scale in scales.items():
        whole = Scale(scale.dataset, scale.reading)
        commands = {
            "command": _command(name, scale, set_ or []),
            "full_scale_command": _command(name, whole, []),
        }
        where = (engine, workers, address)
        picture = make(name, scale, out, places[name, one], commands, only or [], where)
        typer.echo(written(picture))


def _refuse_unused(context: typer.Context, what: str) -> None:
    """Options that would change nothing, and that a user would believe to."""
    if what not in (*FROM_WHAT_IS_KEPT, "sensitivity"):
        return
    for option in context.command.params:
        name = str(option.name)
        source = context.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        if given and name in (OF_FIGURES if what == "sensitivity" else context.params.keys() - USED_BY_ALL):
            raise InputError(f"{option.opts[0]} changes nothing in {what}; leave it out")


def _command(name: str, scale: "Scale", set_: list[str]) -> str:
    """The command that makes this figure again."""
    words = ["pmafl", "reproduce", name, "--dataset", scale.dataset, "--seeds", str(scale.seeds)]
    words += ["--wireless-seeds", str(scale.wireless_seeds), "--rounds", str(scale.rounds)]
    words += ["--devices", str(scale.devices)] if scale.devices else []
    words += ["--reading", scale.reading] if scale.reading != "chosen" else []
    return command_line(words, set_)


def _ask(amount: "Amount", only: list[str], out: Path, results: Path | None, where: "Where") -> None:
    """The questions whose name and data set match, then the page of all that are kept."""
    from pmafl.experiments import report, sensitivity
    from pmafl.experiments.study import check_patterns, matching

    questions = {f"{question.name}, {question.dataset}": question for question in sensitivity.questions()}
    check_patterns(only, questions)
    place = results or RESULTS
    if more := sensitivity.holds_more(place, amount):
        if results:
            raise InputError(f"{more}; give another --results")
        place = out / "results"
        typer.echo(f"{more}, and is kept; this goes to {place}")
    report.make_directory(place)
    for name in matching(questions, only):
        sensitivity.make(questions[name], amount, out, place, where)
    _write_sensitivity(place, amount)


def _write_sensitivity(results: Path, amount: "Amount") -> None:
    from pmafl.experiments import sensitivity

    typer.echo(f"{sensitivity.write(results, amount)} is written")


def _write_claims(results: Path) -> None:
    from pmafl.experiments.claims import write_claims
    from pmafl.experiments.statements import all_claims

    typer.echo(f"{write_claims(all_claims(), results)} is written")
