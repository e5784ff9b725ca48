"""Domains in experiments: what the harness is told to make, the shares that weights and limits ask
for, and what was received.

The guest's side is guest/domains.sh and workloads/sampler.c. Shares are arithmetic (QLinux section
2.1): a node's time is divided among its children in proportion to their weights, and what a child
cannot use, since it has too few threads or a limit (cpu.max), is divided among the others the same
way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .results import read_json

CGROUPS = "/sys/fs/cgroup/"
DEFAULT_WEIGHT = 100  # the kernel's


@dataclass(frozen=True)
class Domain:
    """One domain of a step. threads: how many of its own can run at once, for the arithmetic (0:
    only those below it). limit: cpu.max in CPUs; period_ms: its period. keys: more words for
    guest/domains.sh."""

    path: str
    program: tuple[str, ...] = ()
    weight: int = DEFAULT_WEIGHT
    threads: int = 0
    limit: float | None = None
    period_ms: int = 100
    keys: tuple[str, ...] = ()

    def words(self) -> list[str]:
        keys = [f"weight={self.weight}"] if self.weight != DEFAULT_WEIGHT else []
        if self.limit is not None:
            keys.append(f"max={round(self.limit * self.period_ms * 1000)}/{self.period_ms * 1000}")
        return [",".join([self.path, *keys, *self.keys]), *self.program]


def step_words(
    domains: Iterable[Domain],
    settle: float,
    interval_ms: int,
    count: int,
    events: str = "-",
    disk_us: int | None = None,
) -> list[str]:
    """The words of a step. count: samples after the first one, 0 for none. events: as in
    guest/domains.sh. disk_us: with a disk whose requests take so long."""
    words = ["domains"] if disk_us is None else ["on_disk", str(disk_us)]
    words += [f"{settle:g}", str(interval_ms), str(count), events]
    for domain in domains:
        words += ["--", *domain.words()]
    return words


def loops(path: str, weight: int = DEFAULT_WEIGHT, processes: int = 1, **more: Any) -> Domain:
    """A domain with so many infinite loops, which count their turns."""
    file = f"/tmp/progress-{path.replace('/', '-')}"
    return Domain(
        path,
        ("/job/inf", str(processes), file),
        weight,
        processes,
        keys=(f"progress={file}", *more.pop("keys", ())),
        **more,
    )


def read_samples(folder: Path, file: str = "samples.json") -> dict[str, Any]:
    """What sampler.c wrote: seconds since the first sample, and by domain CPU seconds and turns
    since then. file: fine.json for the domains that were sampled each tick."""
    data = read_json(folder / file)
    at = data["at_ns"]

    def since(values: Sequence[int], unit: float, digits: int) -> list[float]:
        return [round((value - values[0]) / unit, digits) for value in values]

    return {
        "late_us": data["late_us"],
        "at_s": since(at, 1e9, 6),
        "domains": {
            path.removeprefix(CGROUPS): {
                "processes": d["processes"],
                "cpu_s": since(d["cpu_ns"], 1e9, 6),
                "turns": [t - d["turns"][0] for t in d["turns"]],
            }
            for path, d in data["domains"].items()
        },
    }


def used(sample: Mapping[str, Any]) -> dict[str, float]:
    """CPU seconds of each domain over all samples."""
    return {path: d["cpu_s"][-1] - d["cpu_s"][0] for path, d in sample["domains"].items()}


def received(sample: Mapping[str, Any]) -> dict[str, float]:
    """Each domain's part of the CPU time of all sampled domains. CPU time of the kernel and of the
    harness is left out."""
    cpu = used(sample)
    total = sum(cpu.values())
    return {path: value / total if total else 0.0 for path, value in cpu.items()}


def divide(
    amount: float, weights: Mapping[str, float], wants: Mapping[str, float]
) -> dict[str, float]:
    """Divides `amount` by weight among the members. A member gets at most what it wants; the rest
    goes to the others."""
    shares = dict.fromkeys(weights, 0.0)
    hungry = {name for name in weights if wants[name] > 0}
    while hungry:
        total = sum(weights[name] for name in hungry)
        full = {name for name in hungry if wants[name] <= amount * weights[name] / total + 1e-12}
        if not full:
            return shares | {name: amount * weights[name] / total for name in hungry}
        for name in full:
            shares[name] = wants[name]
        amount -= sum(wants[name] for name in full)
        hungry -= full
    return shares


def asked(
    domains: Iterable[Domain],
    cpus: int,
    taken: Mapping[str, float] | None = None,
    total: float | None = None,
) -> dict[str, float]:
    """CPUs for each domain with a program, by the arithmetic. taken: what programs that sleep use,
    in CPUs, where a domain's threads do not say what it wants. total: CPUs to divide, if the kernel
    took part of them."""
    nodes = {domain.path: domain for domain in domains}
    for path in list(nodes):
        while "/" in path:  # those above, made with defaults
            path = path.rpartition("/")[0]
            nodes.setdefault(path, Domain(path))
    below: dict[str, list[str]] = {path: [] for path in ["", *nodes]}
    for path in nodes:
        below[path.rpartition("/")[0]].append(path)

    def want(path: str) -> float:
        node = nodes[path]
        own = (taken or {}).get(path, float(min(node.threads, cpus)))
        return min(cpus if node.limit is None else node.limit, own + sum(map(want, below[path])))

    shares: dict[str, float] = {}

    def give(path: str, amount: float) -> None:
        if path and nodes[path].program:
            shares[path] = amount  # programs are in leaves only, as the kernel has it
        for child, part in divide(
            amount, {c: nodes[c].weight for c in below[path]}, {c: want(c) for c in below[path]}
        ).items():
            give(child, part)

    give("", float(cpus) if total is None else total)
    return shares


def cpus_title(cpus: int, machine: str) -> str:
    """How titles name the machine of an experiment that runs on several."""
    return (
        f"{cpus} "
        f"CPU{'s' if cpus > 1 else ''}{' in virtual time' if machine == 'timing-smp' else ''}"
    )


def points_off(got: float, wanted: float) -> float:
    """By how many points `got` is off 100 % of `wanted`, with the sign."""
    return 100 * got / wanted - 100


def windows(
    at: Sequence[float], values: Sequence[float], length: float, step: float
) -> list[float]:
    """What came between t and t + length, for t = at[0], at[0] + step, ...: samples must be at
    regular intervals."""
    interval = (at[-1] - at[0]) / (len(at) - 1)
    span, stride = round(length / interval), max(1, round(step / interval))
    return [
        (values[i + span] - values[i]) * length / (at[i + span] - at[i])
        for i in range(0, len(values) - span, stride)
    ]
