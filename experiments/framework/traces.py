"""Recorded traces: the CPU time that a player used for each frame of a movie, in
crates/sim/traces/NAME.csv.

Lines that begin with "#" say what was recorded and how; then one whole number a line, nanoseconds
of CPU time of one frame, in order. The simulator plays them, and so does workloads/player.c on the
real kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import ExperimentError
from .results import write_file
from .schedulers import ROOT

TRACES = ROOT / "crates" / "sim" / "traces"


def read_trace(path: Path) -> list[int]:
    """CPU times in ns. Raises ExperimentError, naming file and line, if it is no trace."""
    costs = []
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ExperimentError(f"{path}: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        if line.startswith("#") or not line.strip():
            continue
        if not line.strip().isdecimal():
            raise ExperimentError(f"{path}, line {number}: {line!r} is no CPU time in ns")
        costs.append(int(line))
    if not costs:
        raise ExperimentError(f"{path}: no frames")
    return costs


def mean_ns(path: Path) -> float:
    costs = read_trace(path)
    return sum(costs) / len(costs)


def trace_text(header: Sequence[str], costs: Sequence[int]) -> str:
    return "".join(f"# {line}\n" for line in header) + "".join(f"{cost}\n" for cost in costs)


def write_traces(
    result: Mapping[str, Any], about: Mapping[str, Sequence[str]], folder: Path = TRACES
) -> list[Path]:
    """The traces of a result of kato/record. about: for each movie, header lines on how it was made
    and played."""
    versions, conditions = result["versions"], result["conditions"]
    paths = []
    for name, recorded in result["samples"]["eevdf"].items():
        header = [
            "CPU time of a movie player for each frame, in ns, one frame a line, in order.",
            *about[name],
            (
                f"Recorded {result['date']}: lab machine {conditions['machine']} (1 CPU, virtual "
                "time: 2 ns an instruction), "
                f"kernel {versions['kernel']}, QEMU {versions['qemu']}."
            ),
            (
                "How: schedstat's sum_exec_runtime from one status line of the player to the next "
                "(experiments/workloads/record.c)."
            ),
            (
                f"Frames: {recorded['frames']}; mean {recorded['mean_ms']:.2f} ms, least "
                f"{recorded['least_ms']:.2f}, "
                f"median {recorded['p50_ms']:.2f}, 99 % below {recorded['p99_ms']:.2f}, most "
                f"{recorded['most_ms']:.2f}."
            ),
            f"Again: {result['command']} && .venv/bin/python -m experiments traces",
        ]
        paths.append(folder / f"{name}.csv")
        write_file(paths[-1], trace_text(header, recorded["cpu_ns"]))
    return paths
