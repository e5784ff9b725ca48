"""Runs a study: `aplomb-sim`, the simulator on this machine, which needs neither a guest nor
root."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from . import results
from .errors import ExperimentError
from .experiment import Study
from .marks import Mark
from .schedulers import ROOT


def build() -> Path:
    """The program, made of the present source: a study judges that, not what was built some time
    ago."""
    words = ["make", "--silent", "build"]
    try:
        done = subprocess.run(words, cwd=ROOT, check=False)
    except FileNotFoundError:
        raise ExperimentError(
            "the simulator cannot be built: there is no make (run scripts/setup)"
        ) from None
    if done.returncode:
        raise ExperimentError(f"the simulator does not build: {' '.join(words)}")
    return ROOT / "target" / "aplomb-sim"


def ask(study: Study, quick: bool) -> Any:
    """What the simulator prints. Raises ExperimentError. Its progress goes to the terminal."""
    words = [*study.command(quick), "--json"]
    done = subprocess.run(
        [build(), *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    said = f"{study.name}: aplomb-sim {' '.join(words)}"
    if done.returncode:
        raise ExperimentError(f"{said} ended with status {done.returncode}")
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise ExperimentError(f"{said} printed no JSON: {error}") from error


def run(study: Study, quick: bool, out: Path, command: str) -> dict[str, Any]:
    """The whole study; returns the result that was written, with its marks and picture. Raises
    ExperimentError."""
    from .runner import draw

    source = results.source_version()
    began = time.monotonic()
    try:
        samples = study.read(ask(study, quick))
    except (KeyError, TypeError, IndexError) as error:
        raise ExperimentError(
            f"{study.name}: the simulator's JSON has another form than expected: {error!r}"
        ) from error
    if study.subject not in samples:
        raise ExperimentError(
            f"{study.name}: the simulator has no {study.subject}, which is what is judged"
        )
    marks: list[Mark] = list(study.judge(samples))
    headers, rows = study.table(samples)
    data = {
        "experiment": study.name,
        "title": study.title,
        "figure": study.figure,
        "about": study.about,
        "date": results.today(),
        "command": command,
        "quick": quick,
        "versions": {"source": source},
        "conditions": {
            "machine": study.machine,
            "host_cpus": os.cpu_count(),
            "wall_s": round(time.monotonic() - began),
        },
        "settings": {
            **study.settings,
            "command": " ".join(["aplomb-sim", *study.command(quick)]),
        },
        "skipped": {},
        "samples": samples,
        "table": {"headers": list(headers), "rows": [list(row) for row in rows]},
        "marks": [mark.as_json() for mark in marks],
    }
    results.write(data, out)
    draw(study, samples, out)
    return data
