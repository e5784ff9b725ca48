"""A program beside a load that wants memory: the words of guest/beside.sh, and what both print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import ExperimentError
from .memory import by_hand as by_hand


def words(
    function: str, settle: int, program: Sequence[object], load: Sequence[object]
) -> list[object]:
    """function: before_load (the program starts first) or after_load. program: its prefix and its
    own words with "--" between."""
    return [function, settle, *program, "--", *load]


def reports(path: Path) -> list[dict[str, Any]]:
    """The lines of JSON that programs printed into a file; other lines are left out."""
    found = []
    for line in path.read_text().splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def merged(path: Path) -> dict[str, Any]:
    """What the programs of a load printed, each a line."""
    return {name: value for report in reports(path) for name, value in report.items()}


def peak_mb(folder: Path, group: str) -> float:
    """The most memory that a cgroup had in a step, without what it had in swap."""
    text = (folder / f"peak-{group}").read_text()
    try:
        return round(int(text) / (1 << 20), 1)
    except ValueError as error:
        raise ExperimentError(f"{folder}/peak-{group}: {error}") from error
