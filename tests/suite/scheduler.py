"""Runs stages side by side: as many as there are cores, each when what it needs has passed.

A greedy list schedule in the order of remaining path length: a stage's own time and that of the
longest chain of stages that wait for it. For unrelated stages this is longest-processing-time-first
(Graham 1969), at most 4/3 of the best possible. A stage that measures real time runs alone; such
stages come last, when nothing else is left that could run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .stage import LOGS, REPOSITORY, Stage

POLL_S = 0.2


@dataclass(frozen=True)
class Outcome:
    """How a stage ended. wall_s, cpu_s: its time, and the processor time of it and its children.
    why: empty if it passed."""

    stage: Stage
    began_s: float
    wall_s: float
    cpu_s: float
    why: str

    @property
    def checks(self) -> int:
        if not self.stage.log.exists() or self.why.startswith("not run"):
            return 0
        return self.stage.checks(self.stage.log.read_text(errors="replace"))


@dataclass(frozen=True)
class Machine:
    """What the stages may use together."""

    cores: int
    memory_mb: int


def this_machine() -> Machine:
    """All cores, and four fifths of the memory that is free: the rest is the page cache's."""
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError), open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                pages = int(line.split()[1]) * 1024
    return Machine(len(os.sched_getaffinity(0)), pages * 4 // 5 // 1024 // 1024)


def path_lengths(stages: Sequence[Stage]) -> dict[str, int]:
    """Of each stage, its time and that of the longest chain that waits for it."""
    lengths: dict[str, int] = {}

    def length(stage: Stage) -> int:
        if stage.name not in lengths:
            after = (length(other) for other in stages if stage.name in other.needs)
            lengths[stage.name] = stage.seconds + max(after, default=0)
        return lengths[stage.name]

    for stage in stages:
        length(stage)
    return lengths


def choose(
    waiting: Sequence[Stage], running: Sequence[Stage], passed: Iterable[str], machine: Machine
) -> Stage | None:
    """The stage to start now, or None; waiting: in the order in which stages should start."""
    done = set(passed)
    if len(running) >= machine.cores or any(stage.alone for stage in running):
        return None
    ready = [stage for stage in waiting if done.issuperset(stage.needs)]
    used = sum(stage.memory_mb for stage in running)
    for stage in ready:
        if not stage.alone and (not running or used + stage.memory_mb <= machine.memory_mb):
            return stage
    others = [stage for stage in waiting if not stage.alone]
    if running or others:
        return None
    return ready[0] if ready else None


def not_runnable(waiting: Sequence[Stage], outcomes: Sequence[Outcome]) -> list[tuple[Stage, str]]:
    """Stages that need one that failed, directly or through others, each with the one it needs."""
    failed = {outcome.stage.name for outcome in outcomes if outcome.why}
    found: list[tuple[Stage, str]] = []
    while True:
        more = [
            (stage, min(failed.intersection(stage.needs)))
            for stage in waiting
            if failed.intersection(stage.needs) and stage.name not in failed
        ]
        if not more:
            return found
        found += more
        failed |= {stage.name for stage, _ in more}


class Process:
    """A stage that runs: its process group, its log, its times."""

    def __init__(self, stage: Stage, zero: float) -> None:
        self.stage = stage
        self.began = time.monotonic()
        self.zero = zero
        self.ended_by_limit = False
        LOGS.mkdir(parents=True, exist_ok=True)
        with stage.log.open("wb") as log:
            self.popen = subprocess.Popen(
                stage.command,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **dict(stage.env)},
            )

    def end(self) -> None:
        """End the stage and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGTERM)

    def poll(self) -> Outcome | None:
        """What became of it, once it has ended."""
        wall = time.monotonic() - self.began
        if wall > self.stage.limit_s:
            self.ended_by_limit = True
            self.end()
        # wait4 gives the processor time of this child and of the children that it waited for.
        pid, status, usage = os.wait4(self.popen.pid, os.WNOHANG)
        if pid == 0:
            return None
        code = self.popen.returncode = os.waitstatus_to_exitcode(status)
        why = f"exit status {code}" if code else ""
        if self.ended_by_limit:
            why = f"not finished after {self.stage.limit_s} s"
        cpu = usage.ru_utime + usage.ru_stime
        return Outcome(self.stage, self.began - self.zero, wall, cpu, why)


def run(
    stages: Sequence[Stage], machine: Machine, tell: Callable[[Outcome], None]
) -> list[Outcome]:
    """Runs all stages and tells of each when it ends. What needs a failed one is not run."""
    lengths = path_lengths(stages)
    waiting = sorted(stages, key=lambda stage: -lengths[stage.name])
    names = {stage.name for stage in stages}
    running: list[Process] = []
    outcomes: list[Outcome] = []
    zero = time.monotonic()

    def ended(outcome: Outcome) -> None:
        outcomes.append(outcome)
        tell(outcome)

    try:
        while waiting or running:
            for process in list(running):
                outcome = process.poll()
                if outcome:
                    running.remove(process)
                    ended(outcome)
            for stage, lacking in not_runnable(waiting, outcomes):
                waiting.remove(stage)
                ended(Outcome(stage, 0, 0, 0, f"not run: it needs {lacking}"))
            # A stage that was not asked for is taken as passed: `scripts/test NAME` runs NAME only.
            passed = {o.stage.name for o in outcomes if not o.why}
            passed |= {need for stage in waiting for need in stage.needs if need not in names}
            chosen = choose(waiting, [p.stage for p in running], passed, machine)
            if chosen:
                waiting.remove(chosen)
                running.append(Process(chosen, zero))
            elif running:
                time.sleep(POLL_S)
            elif waiting:
                raise RuntimeError(f"stages wait for each other: {[s.name for s in waiting]}")
    finally:
        for process in running:
            process.end()
    return outcomes
