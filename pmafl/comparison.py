"""Grids of runs, paired by seed: what to run, running it in parallel, and the table that comes out.

A grid is the product of varied settings and seeds; each of its runs has a directory of its own, named by
its settings, and is skipped when it is done and gone on with when it was interrupted. How runs are executed
is an engine: processes on this machine (`run_locally`) or tasks on a Ray cluster (`run_on_ray`).
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from pmafl import budgets, runs
from pmafl.checks import check as check_settings
from pmafl.errors import InputError, NoAnswer
from pmafl.paths import INPUTS
from pmafl.settings import OPTIONS, Settings, load, parse_assignment
from pmafl.workers import WORKER_ENVIRONMENT, WorkerDied, connect, cores, run_tasks

METRICS = {
    "final_accuracy": "final accuracy",
    "best_accuracy": "best accuracy",
    "final_error": "final error",
    "best_error": "best error",
    "final_loss": "final loss",
    "scheduled_samples_per_round": "samples per round",
    "scheduled_devices_per_round": "devices per round",
    "energy_per_device_round_j": "energy (J)",
    "max_energy_per_device_round_j": "worst device (J)",
}
TRIES = 3  # of a job whose workers die
EQUAL = 1e-12  # of their mean: numbers that spread less are the same but for rounding
SMALL = 1e-3  # numbers below are written with an exponent where they need one
GRID = "comparison.json"  # which runs a comparison has
INDEX = "runs.csv"  # the same for people

SHORT_NAMES = {"policy.name": "policy", "learning.algorithm": "algorithm"}

Array = NDArray[np.float64]
Variation = tuple[tuple[str, Any], ...]
Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Job:
    """One run of a grid: what was varied, its seed, its settings and its directory."""

    variation: Variation
    seed: int
    settings: Settings
    directory: Path


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and the half-width of its 95% interval (NaN for a single seed)."""

    mean: float
    half_width: float


@dataclass(frozen=True)
class Row:
    """One variation over all seeds: its metrics, and their paired differences to its baseline.

    The baseline is the row with the same settings but the first value of the first varied key; for itself the
    differences are empty.
    """

    variation: Variation
    seeds: int
    metrics: dict[str, Estimate]
    differences: dict[str, Estimate]


Outcome = tuple[Job, Exception | None]


def label(variation: Variation) -> str:
    """A variation in a few words, for tables and legends."""
    return ", ".join(f"{SHORT_NAMES.get(key, key.rpartition('.')[2])}={value}" for key, value in variation)


def with_options(key: str, value: Any) -> dict[str, Any]:
    """The settings that a value of a varied key stands for.

    Names may have options: ``uniform:count=5``, ``package.module:name:key=value:key=value``. A name alone has
    the options of the settings where they are its own (`pmafl.settings.load`).

    >>> with_options("policy.name", "uniform:count=5")
    {'policy.name': 'uniform', 'policy.options': {'count': 5}}
    """
    if key not in OPTIONS or not isinstance(value, str) or "=" not in value:
        return {key: value}
    parts = split_outside(value, ":")
    first = next(index for index, part in enumerate(parts) if "=" in part)
    name, options = ":".join(parts[:first]), {}
    for part in parts[first:]:
        option, equals, text = part.partition("=")
        if not (name and option.strip() and equals and text.strip()):
            raise InputError(
                f"{key} = {value!r:.80}: must be a name, or a name with options as in name:option=value"
            )
        if option.strip() in options:
            raise InputError(f"{key} = {value!r:.80}: has option {option.strip()!r} twice")
        options[option.strip()] = parse_assignment(part)[1]
    return {key: name, OPTIONS[key]: options}


def split_outside(text: str, separator: str) -> list[str]:
    """Parts of a text between separators, but for those in brackets or quotation marks.

    >>> split_outside("[1,2],'a,b',c", ",")
    ['[1,2]', "'a,b'", 'c']
    """
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == separator and not depth:
            parts.append("")
            continue
        parts[-1] += character
    return parts


def grid(
    source: str,
    overrides: Mapping[str, Any],
    vary: Mapping[str, Sequence[Any]],
    seeds: Iterable[int],
    out: Path,
) -> list[Job]:
    """Every combination of the varied settings with every seed; wrong settings show before any run."""
    if "run.seed" in vary:
        raise InputError("--vary run.seed: every variation has every seed; give --seeds and --set run.seed")
    jobs: list[Job] = []
    for values in itertools.product(*vary.values()):
        variation = tuple(zip(vary, values, strict=True))
        for seed in seeds:
            chosen = {name: of for key, value in variation for name, of in with_options(key, value).items()}
            settings = load(source, {**overrides, **chosen, "run.seed": seed})
            jobs.append(Job(variation, seed, settings, out / "runs" / settings.digest()))
    first = {job.directory: job for job in reversed(jobs)}
    if same := [job for job in jobs if first[job.directory] is not job]:
        other = label(first[same[0].directory].variation)
        raise InputError(f"{label(same[0].variation)} is the same as {other}; name it once")
    return jobs


def write_grid(jobs: Sequence[Job], out: Path) -> None:
    """Note down which runs make up a comparison, for programs and for people: a directory may hold others."""
    runs_of_it = [
        {"directory": str(job.directory.relative_to(out)), "variation": job.variation, "seed": job.seed}
        for job in jobs
    ]
    runs.write_atomically(out / GRID, (json.dumps({"runs": runs_of_it}, indent=2) + "\n").encode())
    keys = [key for key, _ in jobs[0].variation]
    lines = [[job.directory.relative_to(out), job.seed, *(v for _, v in job.variation)] for job in jobs]
    runs.write_atomically(out / INDEX, csv_text([["directory", "seed", *keys], *lines]).encode())


def read_grid(out: Path) -> list[Job]:
    """The runs of a comparison's directory: as noted down, else all of them, told apart by what differs."""
    path = out / GRID
    if not path.is_file():
        return _deduced(out)
    try:
        return [
            Job(
                tuple((str(key), _frozen(value)) for key, value in entry["variation"]),
                int(entry["seed"]),
                runs.read_settings(out / entry["directory"]),
                out / entry["directory"],
            )
            for entry in json.loads(path.read_text("utf-8"))["runs"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({error}); run the comparison again to write it") from None


def _deduced(out: Path) -> list[Job]:
    """Version 0.1 noted nothing down. Only seeds that every variation has can be paired."""
    found = {
        path.parent: runs.read_settings(path.parent) for path in sorted(out.glob("runs/*/settings.toml"))
    }
    flat = {directory: dict(_flat(settings.model_dump())) for directory, settings in found.items()}
    keys = dict.fromkeys(key for values in flat.values() for key in values if key != "run.seed")
    varied = [key for key in keys if len({repr(values.get(key)) for values in flat.values()}) > 1]
    jobs = [
        Job(
            tuple((key, _frozen(flat[directory].get(key))) for key in varied),
            settings.run.seed,
            settings,
            directory,
        )
        for directory, settings in found.items()
    ]
    seeds: dict[Variation, set[int]] = {}
    for job in jobs:
        seeds.setdefault(job.variation, set()).add(job.seed)
    common = set.intersection(*seeds.values()) if seeds else set()
    return [job for job in jobs if job.seed in common]


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _frozen(value: Any) -> Any:
    """A value that can be a key: lists of settings are tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def run_job(directory: Path, settings_toml: str, workers: int = 1) -> None:
    """Run one directory to its end, in a process that has so many workers."""
    from pmafl.settings import parse

    # It waits because a worker on a lost node may take a moment to die.
    runs.run(directory, parse(settings_toml), wait=True, again=True, workers=workers)


def _run_elsewhere(directory: Path, settings_toml: str) -> dict[str, bytes]:
    """Run one directory, perhaps on another machine, and give back its small files."""
    run_job(directory, settings_toml)
    inputs = [f"{INPUTS}/{path.name}" for path in (directory / INPUTS).glob("*")]
    names = (*inputs, "run.json", "settings.toml", "rounds.jsonl", "summary.json")
    return {name: (directory / name).read_bytes() for name in names}


def check(jobs: Iterable[Job], engine: Literal["local", "ray"] = "local") -> None:
    """Refuse what could not run, and a place that cannot be written, before the first run."""
    waiting = unfinished(jobs)
    check_settings((job.settings for job in waiting), here=engine == "local")
    for folder in {job.directory.parent for job in waiting}:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror}); give another --out") from None


def unfinished(jobs: Iterable[Job]) -> list[Job]:
    return [job for job in jobs if runs.read_summary(job.directory) is None]


def run(
    jobs: Sequence[Job],
    report: Report,
    engine: Literal["local", "ray"] = "local",
    workers: int | None = None,
    address: str | None = None,
) -> None:
    """Run jobs in `workers` processes here (default one per core), or on the Ray cluster at an address."""
    if engine == "ray":
        run_on_ray(jobs, address, report)
    else:
        run_locally(jobs, workers or cores(), report)


def run_locally(jobs: Sequence[Job], workers: int, report: Report) -> None:
    """Run jobs in parallel processes on this machine; they end with this process.

    Where there are fewer jobs than `workers`, each run has several.
    """
    jobs_at_once = max(1, min(workers, len(jobs)))
    os.environ.update(WORKER_ENVIRONMENT)  # inherited by the workers, which import torch after it

    def attempt(waiting: Sequence[Job]) -> Generator[Outcome]:
        each = workers // jobs_at_once
        tasks = [(job.directory, job.settings.to_toml(), each) for job in waiting]
        with closing(run_tasks(run_job, tasks, jobs_at_once)) as outcomes:
            for index, error in outcomes:
                yield waiting[index], error

    _run_all(jobs, attempt, report)


def run_on_ray(jobs: Sequence[Job], address: str | None, report: Report) -> None:
    """Run jobs as tasks of a Ray cluster; those of a lost node go to another.

    Workers write to the job's directory, which on several machines may or may not be shared: where it is not,
    the small files of a finished run are brought back here.
    """
    ray, _ = connect(address)
    # Tries are counted here: Ray's own would repeat for ever what exhausts a machine's memory.
    task = ray.remote(num_cpus=1, max_retries=0)(_run_elsewhere)

    def attempt(waiting: Sequence[Job]) -> Generator[Outcome]:
        tasks = {task.remote(job.directory.resolve(), job.settings.to_toml()): job for job in waiting}
        while tasks:
            (ready,), _ = ray.wait(list(tasks), num_returns=1)
            job = tasks.pop(ready)
            try:
                files = ray.get(ready)
            except ray.exceptions.RayTaskError as error:
                known = isinstance(error.cause, InputError | NoAnswer)
                yield job, error.cause if known else RuntimeError(str(error))
            except ray.exceptions.RayError as error:
                yield job, WorkerDied(f"was lost ({type(error).__name__})")
            else:
                _bring_back(job, files)
                yield job, None

    _run_all(jobs, attempt, report)


def _bring_back(job: Job, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        if not (job.directory / name).exists():
            (job.directory / name).parent.mkdir(parents=True, exist_ok=True)
            runs.write_atomically(job.directory / name, content)


def _run_all(
    jobs: Sequence[Job], attempt: Callable[[Sequence[Job]], Generator[Outcome]], report: Report
) -> None:
    """Run jobs, and those whose worker died again; a job that fails is raised when all others are done.

    `attempt` runs each of some jobs once. What died is tried again after all the rest, when there is more
    memory; as a run goes on where it was, nothing but time is lost.
    """
    done, waiting = 0, list(jobs)
    failures: list[tuple[Job, Exception]] = []
    for tries_left in reversed(range(TRIES)):
        again = []
        with closing(attempt(waiting)) as outcomes:
            for job, error in outcomes:
                if error is None:
                    done += 1
                    report(done, len(jobs))
                elif isinstance(error, WorkerDied) and tries_left:
                    again.append(job)
                    _warn(f"{_name(job)}: its worker {error}; it is run again")
                else:
                    failures.append((job, error))
                    if done + len(again) + len(failures) < len(jobs):
                        _warn(f"{_name(job)} failed; the others go on")
        if not (waiting := again):
            break
    if failures:
        raise _explained(failures, len(jobs))


def _explained(failures: Sequence[tuple[Job, Exception]], jobs: int) -> Exception:
    """The first failure as an error that names its job."""
    job, error = failures[0]
    if isinstance(error, WorkerDied):
        error = InputError(f"{TRIES} workers died of it; the last one {error}")
    more = f"; {len(failures)} of {jobs} runs failed" if jobs > 1 else ""
    kind = type(error) if isinstance(error, InputError | NoAnswer) else RuntimeError
    return kind(f"{_name(job)}: {error}{more}")


def _name(job: Job) -> str:
    return ", ".join([*filter(None, [label(job.variation)]), f"seed {job.seed}"]) + f" ({job.directory})"


def _warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def _summaries(jobs: Sequence[Job]) -> dict[Variation, dict[int, dict[str, Any]]]:
    """By variation and seed."""
    found: dict[Variation, dict[int, dict[str, Any]]] = {}
    for job in jobs:
        summary = runs.read_summary(job.directory)
        if summary is None:
            raise InputError(f"{job.directory} is not finished; run the comparison again to go on with it")
        found.setdefault(job.variation, {})[job.seed] = summary
    return found


def broken_budgets(jobs: Sequence[Job]) -> list[str]:
    """A sentence for each variation whose runs broke energy budgets."""
    policies = {job.variation: job.settings.policy for job in jobs}
    found = {
        variation: budgets.in_words(list(by_seed.values()), policies[variation])
        for variation, by_seed in _summaries(jobs).items()
    }
    return [": ".join(filter(None, [label(variation), said])) for variation, said in found.items() if said]


def diverged(jobs: Sequence[Job]) -> list[str]:
    """A sentence for each variation whose training diverged: its accuracy is that of guessing."""
    found = []
    for variation, by_seed in _summaries(jobs).items():
        if count := sum(one["final_loss"] is None for one in by_seed.values() if one["algorithm"]):
            said = f"the training diverged with {count} of {len(by_seed)} seeds"
            found.append(": ".join(filter(None, [label(variation), said])))
    return found


def tabulate(jobs: Sequence[Job]) -> list[Row]:
    """One row a variation, from the summaries of its runs."""
    summaries = _summaries(jobs)
    first_value = next(iter(summaries))[0][1] if jobs and jobs[0].variation else None
    rows = []
    for variation, by_seed in summaries.items():
        first = ((variation[0][0], first_value), *variation[1:]) if variation else variation
        baseline = summaries.get(first, by_seed)  # runs that were only found need not make up a whole grid
        rows.append(_row(variation, by_seed, baseline))
    return rows


def _row(variation: Variation, by_seed: Mapping[int, Mapping[str, Any]], baseline: Mapping[int, Any]) -> Row:
    metrics, differences = {}, {}
    for metric in METRICS:
        values = _values(by_seed, metric)
        if values is None:
            continue
        metrics[metric] = estimate(values)
        before = _values(baseline, metric)
        if baseline is not by_seed and before is not None:
            differences[metric] = estimate(values - before)
    return Row(variation, len(by_seed), metrics, differences)


def _values(by_seed: Mapping[int, Mapping[str, Any]], metric: str) -> Array | None:
    values = [by_seed[seed].get(metric) for seed in sorted(by_seed)]
    return None if None in values else np.array(values, dtype=np.float64)


def estimate(values: Array) -> Estimate:
    """Mean and 95% interval by Student's t."""
    if values.size < 2:
        return Estimate(float(values.mean()), float("nan"))
    mean, spread = values.mean(), values.std(ddof=1)
    if spread <= EQUAL * abs(mean):
        spread = 0.0
    return Estimate(float(mean), float(stdtrit(values.size - 1, 0.975) * spread / np.sqrt(values.size)))


def present_metrics(rows: Sequence[Row]) -> list[str]:
    """The metrics that any row has, in their usual order."""
    return [metric for metric in METRICS if any(metric in row.metrics for row in rows)]


def to_csv(rows: Sequence[Row]) -> str:
    """All numbers, one line a variation."""
    metrics = present_metrics(rows)
    parts = ("mean", "half_width", "difference", "difference_half_width")
    keys = [key for key, _ in rows[0].variation]
    lines = [[*keys, "seeds", *(f"{metric}_{part}" for metric in metrics for part in parts)]]
    for row in rows:
        cells: list[Any] = [*(value for _, value in row.variation), row.seeds]
        for metric in metrics:
            for estimates in (row.metrics, row.differences):
                found = estimates.get(metric)
                cells += ["", ""] if found is None else [repr(found.mean), repr(found.half_width)]
        lines.append(cells)
    return csv_text(lines)


def csv_text(lines: Iterable[Sequence[Any]]) -> str:
    """Lines of cells as a CSV file has them."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def to_latex(rows: Sequence[Row]) -> str:
    """A booktabs table of means and intervals, and below each its paired difference to the first."""
    metrics = present_metrics(rows)
    header = " & ".join(["", *(METRICS[metric] for metric in metrics)])
    lines = [r"\begin{tabular}{l" + "r" * len(metrics) + "}", r"\toprule", header + r" \\", r"\midrule"]
    for row in rows:
        for name, found in ((label(row.variation), row.metrics), (r"\quad difference", row.differences)):
            cells = (show(found.get(m), m, r"$\pm$", signed=found is row.differences) for m in metrics)
            line = " & ".join([name, *cells]).replace("_", r"\_").replace("%", r"\%")
            lines += [line + r" \\"] if found else []
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def show(found: Estimate | None, metric: str, plus_minus: str = "±", signed: bool = False) -> str:
    """An estimate as people read it: percent for accuracies, a few digits otherwise."""
    if found is None:
        return ""
    percent, size = metric.endswith("accuracy"), abs(found.mean)
    pattern = ".2f" if percent or 1 <= size < 100 else ".0f" if size >= 100 else ".4f"
    if not percent and 0 < size < SMALL:
        pattern = ".3g"
    scale, unit = (100, "%") if percent else (1, "")
    text = f"{scale * found.mean:{'+' if signed else ''}{pattern}}{unit}"
    if math.isnan(found.half_width):
        return text
    return f"{text} {plus_minus} {scale * found.half_width:{pattern}}{unit}"
