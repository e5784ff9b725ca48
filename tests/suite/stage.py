"""A stage of the tests: one command with a log, and what it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LOGS = REPOSITORY / "target" / "test"


def no_checks(_log: str) -> int:
    return 0


@dataclass(frozen=True)
class Stage:
    """seconds: what it takes alone on two quiet cores; the scheduler starts the longest first.
    needs: stages that must have passed before. memory_mb: what it holds at most.
    alone: it measures real time, so nothing may run beside it. full: only `make test-full` runs it.
    limit_s: wall time after which it is ended. checks: how many checks a log tells of."""

    name: str
    what: str
    command: Sequence[str]
    seconds: int
    needs: tuple[str, ...] = ()
    memory_mb: int = 500
    alone: bool = False
    full: bool = False
    limit_s: int = 1800
    checks: Callable[[str], int] = no_checks
    env: tuple[tuple[str, str], ...] = ()

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"


def cargo_checks(log: str) -> int:
    """Tests that `cargo test` counted as passed or failed."""
    counts = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed", log, re.MULTILINE)
    return sum(int(passed) + int(failed) for passed, failed in counts)


def unittest_checks(log: str) -> int:
    """Tests that unittest ran."""
    return sum(int(count) for count in re.findall(r"^Ran (\d+) tests? in", log, re.MULTILINE))


def lint_checks(log: str) -> int:
    """Tools that scripts/check ran."""
    return len(re.findall(r" (?:ok|FAILED) +\d+ s$", log, re.MULTILINE))


def lab_checks(log: str) -> int:
    """Checks in guests, as the jobs' harness counts them, and the tests around them."""
    # With -v unittest has begun the line: "test_checks (…) ... lab checks: 30".
    counts = re.findall(r"\blab checks: (\d+)$", log, re.MULTILINE)
    return sum(map(int, counts)) + unittest_checks(log)
