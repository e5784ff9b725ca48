"""The results of an experiment as one JSON file; what must be in it is checked when it is written
and when it is read."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import ExperimentError
from .schedulers import ROOT

RESULTS = ROOT / "results"
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "experiment": str,
    "title": str,
    "figure": str,
    "about": str,
    "date": str,
    "command": str,
    "quick": bool,
    "versions": dict,
    "conditions": dict,
    "settings": dict,
    "skipped": dict,
    "samples": dict,
    "marks": list,
    "table": dict,
}
_MARK_FIELDS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "value": (int, float, type(None)),
    "unit": str,
    "limit": str,
    "ok": (bool, type(None)),
}


def parse_json(text: str, where: str) -> dict[str, Any]:
    """The JSON object in `text`. Raises ExperimentError, naming the place, if there is none."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ExperimentError(f"{where}: {error}") from error
    if not isinstance(data, dict):
        raise ExperimentError(f"{where}: not a JSON object")
    return data


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file that a step left. Raises ExperimentError or OSError."""
    return parse_json(path.read_text(), str(path))


def validate(data: Any, where: str) -> None:
    """Raise ExperimentError, naming the file and the field, unless the data has the form of a
    result."""
    if not isinstance(data, dict):
        raise ExperimentError(f"{where}: a result is an object")
    for name, kind in _FIELDS.items():
        if not isinstance(data.get(name), kind):
            raise ExperimentError(f"{where}: the field {name!r} is missing or of another type")
    for number, mark in enumerate(data["marks"]):
        for name, kind in _MARK_FIELDS.items():
            if not isinstance(mark, dict) or name not in mark or not isinstance(mark[name], kind):
                raise ExperimentError(
                    f"{where}: marks[{number}]: the field {name!r} is missing or of another type"
                )
    for name in ("headers", "rows"):
        if not isinstance(data["table"].get(name), list):
            raise ExperimentError(
                f"{where}: table: the field {name!r} is missing or of another type"
            )


def write_file(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)


def write(data: Mapping[str, Any], folder: Path) -> Path:
    path = folder / f"{data['experiment']}.json"
    validate(data, str(path))
    write_file(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    return path


def read(path: Path) -> dict[str, Any]:
    try:
        data = read_json(path)
    except OSError as error:
        raise ExperimentError(f"{path}: {error}") from error
    validate(data, str(path))
    return data


def today() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def source_version() -> str:
    """The commit of this repository, with -dirty if scheduler, daemon or experiments differ from
    it."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", ROOT, *words], capture_output=True, text=True, check=False
        ).stdout.strip()

    commit = git("rev-parse", "--short=12", "HEAD") or "unknown"
    changed = git(
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        "bpf",
        "crates",
        "specs",
        "experiments",
        "lab",
    )
    return commit + ("-dirty" if changed else "")
