"""Runs an experiment: its guests in parallel, then marks, table, picture and JSON."""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from . import guest, results
from .errors import ExperimentError
from .experiment import Experiment, Samples, Study
from .guest import Boot, Outcome, PeerEnded
from .marks import Mark
from .schedulers import Scheduler, all_schedulers


def choose(
    experiment: Experiment, asked: list[str] | None, quick: bool
) -> tuple[list[Scheduler], dict[str, str]]:
    """The schedulers that take part, and why others do not.

    A peer that is not installed is skipped, aplomb is not: without it there is nothing to show.
    """
    known = all_schedulers()
    wanted = asked or list(experiment.quick_schedulers if quick else experiment.schedulers)
    for name in wanted:
        if name not in known:
            raise ExperimentError(f"there is no scheduler {name!r}; there are: {', '.join(known)}")
        if name not in experiment.schedulers:
            raise ExperimentError(
                f"{experiment.name} does not use {name}; it uses: "
                f"{', '.join(experiment.schedulers)}"
            )
    skipped = {name: known[name].missing for name in wanted if known[name].missing}
    if "aplomb" in skipped:
        raise ExperimentError(skipped["aplomb"])
    return [known[name] for name in wanted if name not in skipped], skipped


def plan(experiment: Experiment, schedulers: list[Scheduler], quick: bool) -> list[Boot]:
    """The guests, in the order in which they start.

    In virtual time the longest go first, so that the last ones end together. In real time (smp) the
    host's other work disturbs, so the schedulers take turns, a step and a guest at a time: what
    disturbs hits all of them alike.
    """
    steps = [(scheduler, list(experiment.steps(scheduler, quick))) for scheduler in schedulers]
    if experiment.machine == "smp":
        turns = itertools.zip_longest(
            *([Boot(scheduler, (step,)) for step in own] for scheduler, own in steps)
        )
        return [boot for turn in turns for boot in turn if boot]
    boots = [boot for scheduler, own in steps for boot in guest.divide(scheduler, own)]
    return sorted(boots, key=lambda boot: -boot.seconds)


def measure(
    experiment: Experiment,
    schedulers: list[Scheduler],
    quick: bool,
    jobs: int,
    keep: Path,
    quiet: bool = False,
) -> tuple[dict[str, dict[str, Any]], dict[str, Any], dict[str, str]]:
    """Samples by scheduler and step, the lab's status of one guest, and the peers that the kernel
    ended, with its reasons.

    Raises ExperimentError at the first failure. A peer that was ended has no samples: half of them
    would be no comparison.
    """
    boots = plan(experiment, schedulers, quick)
    seconds = sum(boot.seconds for boot in boots)
    jobs = 1 if experiment.machine == "smp" else jobs  # a guest has all CPUs of the host
    if not quiet:
        print(
            f"{experiment.name}: {len(boots)} guests, {seconds:.0f} s of guest time, {jobs} at "
            "a time",
            file=sys.stderr,
        )
    pool = ThreadPoolExecutor(jobs)
    running: dict[Future[Outcome], Boot] = {}
    for number, boot in enumerate(boots):
        place = keep / f"{boot.scheduler.name}-{number}"
        running[pool.submit(guest.run_boot, experiment, boot, place, quiet)] = boot
    samples: dict[str, dict[str, Any]] = {scheduler.name: {} for scheduler in schedulers}
    status: dict[str, Any] = {}
    ended: dict[str, str] = {}
    try:
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                name = running.pop(future).scheduler.name
                try:
                    outcome = future.result()
                except PeerEnded as end:
                    ended[name] = str(end)
                    continue
                samples[name].update(outcome.samples)
                status = outcome.status
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    ordered = {
        s.name: {step.name: samples[s.name][step.name] for step in experiment.steps(s, quick)}
        for s in schedulers
        if s.name not in ended
    }
    return ordered, status, ended


def run(
    experiment: Experiment,
    asked: list[str] | None,
    quick: bool,
    jobs: int,
    out: Path,
    command: str,
    quiet: bool = False,
    keep_output: bool = False,
) -> dict[str, Any]:
    """The whole experiment; returns the result that was written, with its marks. Raises
    ExperimentError."""
    schedulers, skipped = choose(experiment, asked, quick)
    if not quiet:
        for reason in skipped.values():
            print(f"skipped: {reason}", file=sys.stderr)
    guest.build_workloads()
    source = results.source_version()
    began = time.monotonic()
    keep = Path(
        tempfile.mkdtemp(prefix="aplomb-guests-")
    )  # kept when something fails: the error names it
    samples, status, ended = measure(experiment, schedulers, quick, jobs, keep, quiet)
    for reason in ended.values():
        print(f"left out: {reason}", file=sys.stderr)
    skipped |= ended
    if keep_output:
        print(f"the guests' output: {keep}", file=sys.stderr)
    else:
        shutil.rmtree(keep)
    marks: list[Mark] = list(experiment.judge(samples)) if experiment.subject in samples else []
    headers, rows = experiment.table(samples)
    data = {
        "experiment": experiment.name,
        "title": experiment.title,
        "figure": experiment.figure,
        "about": experiment.about,
        "date": results.today(),
        "command": command,
        "quick": quick,
        "versions": {
            "source": source,
            "kernel": status.get("kernel"),
            "qemu": status.get("qemu"),
            **{s.name: s.version() for s in schedulers if s.binary},
        },
        "conditions": {
            "machine": experiment.machine,
            "accelerator": status.get("accel"),
            "guests": "one or more a scheduler",
            "memory_mb": status.get("memory_mb"),
            "wall_s": round(time.monotonic() - began),
        },
        "settings": {
            **experiment.settings,
            "schedulers": {s.name: s.title for s in schedulers},
            "profiles": {
                name: {
                    "lines": list(p.lines),
                    "shipped_specs_too": not p.only,
                    "config": list(p.config),
                }
                for name, p in experiment.profiles.items()
            },
        },
        "skipped": skipped,
        "samples": samples,
        "table": {"headers": list(headers), "rows": [list(row) for row in rows]},
        "marks": [mark.as_json() for mark in marks],
    }
    results.write(data, out)
    draw(experiment, samples, out)
    return data


def draw(experiment: Experiment | Study, samples: Samples, out: Path) -> Path:
    from . import plot

    path = out / f"{experiment.name}.svg"
    plot.save(experiment.draw(samples), path, experiment.name)
    return path
