"""A figure from its runs to its files, and from what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pmafl.display import running
from pmafl.experiments import FIGURES, figure_module, report
from pmafl.experiments.archive import Archive, check_kept, keeper
from pmafl.experiments.evidence import allocation_jobs, commands_of, load_study
from pmafl.experiments.study import READINGS, NotRun, Scale, manifest_path, prepare, to_run

Where = tuple[Literal["local", "ray"], int | None, str | None]  # engine, workers, address


def make(
    name: str,
    scale: Scale,
    out: Path,
    results: Path,
    commands: Mapping[str, str],
    only: Sequence[str],
    where: Where,
) -> Path:
    """Run what is missing of one figure on one data set, keep it as it finishes, and write the files."""
    figure, archive, file = figure_module(name), Archive(results, directories=True), f"{name}-{scale.suffix}"
    with running(
        f"{name} {scale.suffix}", *where, unfinished=archive.unfinished, after=keeper(archive, file)
    ) as run:
        study = prepare(name, figure.curves(scale), scale, out, figure.SCHEDULING, run, archive)
        archive.forget_without_allocations(allocation_jobs(study))
        run(to_run(study, only))
    archive.keep(file, [*study.behind, *study.wireless, *study.jobs], allocation_jobs(study))
    return report.write(study, figure, results, commands)


def draw_again(results: Path) -> Iterator[str]:
    """Every figure that has been made, from what is kept, and what is said of each."""
    check_kept(results)
    archive = Archive(results)
    for name in FIGURES:
        figure = figure_module(name)
        for scale in (Scale(dataset, reading) for dataset in figure.DATASETS for reading in READINGS):
            path = manifest_path(results, name, scale)
            if not path.is_file():
                continue
            try:
                study = load_study(name, scale.dataset, scale.reading, results, archive)
            except NotRun:
                yield f"{path.with_suffix('')} is left as it is: its runs are not kept"
            else:
                yield written(report.write(study, figure, results, commands_of(path)))


def written(picture: Path) -> str:
    return f"{picture} and its tables are written"
