"""A program and its load that send over one slow link: what the experiments on networks have in
common. The guest's side is guest/link.sh.

Each variant is a scheduler of CPUs and a queueing discipline of the interface. Those of the kernel
that have classes are told by the port which packets are the program's, and aplomb by its domain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .experiment import Profile, Samples, Step
from .schedulers import Scheduler

# What a datagram's headers are on the link: Ethernet, IPv4, UDP.
HEADERS = 42
PROFILES = {"plain": Profile((), only=True)}


@dataclass(frozen=True)
class Variant:
    """kind: as guest/link.sh calls it."""

    kind: str
    title: str

    @property
    def scheduler(self) -> str:
        return "aplomb" if self.kind.startswith("aplomb") else "eevdf"


FIFO = Variant("fifo", "fifo")
FQ_CODEL = Variant("fq_codel", "fq_codel")
CAKE = Variant("cake", "cake")
HTB = Variant("htb", "HTB")
HFSC = Variant("hfsc", "HFSC")
DRR = Variant("drr", "DRR")
APLOMB = Variant("aplomb", "aplomb")
APLOMB_FIFO = Variant("aplomb-fifo", "aplomb, fifo leaf")  # QLinux's default
ALL = (FIFO, FQ_CODEL, CAKE, HTB, HFSC, DRR, APLOMB)


@dataclass(frozen=True)
class Link:
    """One measurement. modem_kbit, buffer: of the slow link behind; None: the interface is it.
    shaped_kbit: the rate that the interface keeps; None: none. program, load: bytes of datagrams,
    us between two (0: as fast as they are taken), and how many are handed over as one packet (1 if
    it is left out); load None: TCP uploads; program ("requests", bytes, number): a web server,
    those bytes on average and that many a second. group: the program's cgroup, /program, below it,
    or the load's."""

    name: str
    shaped_kbit: int | None
    program: tuple[str | int, ...]
    load: tuple[int, ...] | None
    loads: int = 1
    weights: tuple[int, int] = (100, 100)
    modem_kbit: int | None = None
    buffer: int = 0
    group: str = "program"

    def words(self, variant: Variant, seconds: int) -> list[str]:
        words: list[object] = ["link", self.modem_kbit or "-", self.buffer, variant.kind]
        words += [self.shaped_kbit or "-", f"{self.weights[0]}:{self.weights[1]}", seconds]
        words += [_sent(self.program), self.loads, _sent(self.load) if self.load else "bulk"]
        words += [self.group]
        return [str(word) for word in words]


def _sent(words: tuple[str | int, ...]) -> str:
    return "/".join(str(word) for word in words)


def step_name(link: Link, variant: Variant) -> str:
    return f"{link.name}-{variant.kind}"


def steps(
    links: Sequence[Link], variants: Sequence[Variant], scheduler: Scheduler, seconds: int
) -> list[Step]:
    return [
        Step(step_name(link, variant), link.words(variant, seconds), seconds + 6, "plain")
        for link in links
        for variant in variants
        if variant.scheduler == scheduler.name
    ]


def read(folder: Path) -> dict[str, Any]:
    """What arrived of the program and of its load."""
    arrived, seconds = (folder / "bulk").read_text().split()
    found: dict[str, Any] = {"bytes": int(arrived), "seconds": int(seconds)}
    for name in ("program", "load"):
        path = folder / name
        if path.exists():
            found[name] = json.loads(path.read_text())
    return found


def measured(
    links: Sequence[Link], variants: Sequence[Variant], samples: Samples
) -> Iterator[tuple[Link, Variant, Mapping[str, Any]]]:
    for link in links:
        for variant in variants:
            sample = samples.get(variant.scheduler, {}).get(step_name(link, variant))
            if sample is not None:
                yield link, variant, sample


def on_link(arrived: Mapping[str, Any]) -> int:
    """Bytes of datagrams on the link."""
    total: int = arrived["bytes"] + HEADERS * arrived["packets"]
    return total


def part(sample: Mapping[str, Any]) -> float:
    """The program's part of what arrived, percent."""
    program, load = on_link(sample["program"]), on_link(sample["load"])
    return round(100 * program / max(1, program + load), 2)


def mbit(count: int, sample: Mapping[str, Any]) -> float:
    """So many bytes in the time of the measurement, in Mbit a second."""
    rate: float = count * 8 / 1e6 / sample["seconds"]
    return round(rate, 3)


def both(sample: Mapping[str, Any]) -> float:
    """What arrived of the program and its load, headers included, in Mbit a second."""
    return mbit(on_link(sample["program"]) + on_link(sample["load"]), sample)


def mean_ms(arrived: Mapping[str, Any]) -> float:
    """How long a datagram was on its way on average."""
    ms: float = arrived["sum_us"] / max(1, arrived["packets"]) / 1000
    return round(ms, 2)


def lost(arrived: Mapping[str, Any]) -> float:
    """Datagrams that did not arrive, percent."""
    sent: int = arrived["packets"] + arrived["lost"]
    percent: float = 100 * arrived["lost"] / max(1, sent)
    return round(percent, 2)
