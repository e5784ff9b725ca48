"""Disks and swap devices of a guest, whose latency and rate are as asked for.

The guest's own (the default): null_blk, which keeps the data in kernel memory and completes each
request by a timer of the guest, so it is right in virtual time too. All its pages are allocated
before the job starts, from memory that the guest has beyond what was asked for (extra_mb), so a
disk neither takes memory that is to be short nor needs some to write. null_blk has no limit in
requests a second; what it has gives one:
 - hw_queue_depth requests are under way at a time, each for completion_nsec: depth / time a second,
   however many wait;
 - a request carries at most max_sectors, so a long transfer moves iops x max_sectors a second;
 - mbps stops the queue until the next 20 ms when the bytes of 20 ms are used up; only for a rate
   without iops.
With rpm: a disk with seeks and rotation, by the guest's clock too, which a program in the guest
serves (guest/programs/rotating.c; spindle.h has the model). The data are in that program's memory.
via=qemu (smp only): a virtio disk that QEMU throttles in real time: both limits, no latency.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from .errors import LabError

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_TIMES_NS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
LEAST_MB, MOST_MB = 16, 8192
PAGE = 4096
# A request has at most 128 segments (BLK_MAX_SEGMENTS), of which each may be one page: more per
# request than this would be promised and not kept.
MOST_REQUEST = 128 * PAGE
USUAL_DEPTH = 64  # null_blk's own
# What the guest needs for a request besides (measured, see lab/README.md): a disk that is asked for
# more requests a second would be late by more than a tenth.
MOST_IOPS_ALONE = 2000
MOST_IOPS = 20000
LONGEST_NS = 10_000_000_000  # the block layer gives a request up after 30 s
# Of disks with rpm: a common desktop disk's mean seek and media rate, and the tags of SATA's NCQ.
USUAL_SEEK_NS = 8_500_000
USUAL_MEDIA_RATE = 100 << 20
USUAL_QUEUE = 32
LEAST_RPM, MOST_RPM = 3600, 15000
LEAST_SEEK_NS, MOST_SEEK_NS = 1_000_000, 50_000_000  # more than spindle.h's from track to track
MOST_MEDIA_RATE = 300 << 20  # the guest's CPU copies 400 MB/s: see lab/README.md
MOST_QUEUE = 256  # MOST_DEPTH in rotating.c


@dataclass(frozen=True)
class Disk:
    """A disk as asked for; 0: no limit."""

    name: str  # of the device in the guest: disk0, disk1, …, swap0, …
    size_mb: int
    iops: int = 0
    rate: int = 0  # bytes a second
    latency_ns: int = 0
    via: str = "guest"
    rpm: int = 0  # a disk with seeks and rotation; the next three are such a disk's only
    seek_ns: int = 0  # the mean of seeks between random places
    queue: int = 0  # requests that it holds
    ncq_ns: int = 0  # it orders them, but serves one first that has waited so long; 0: it does not

    @property
    def is_swap(self) -> bool:
        return self.name.startswith("swap")

    @property
    def depth(self) -> int:
        """Requests under way at a time (Little: rate x time each)."""
        if self.rpm:
            return self.queue
        if not self.iops:
            return USUAL_DEPTH
        return max(1, math.ceil(self.iops * self.latency_ns / 1e9 - 1e-6))

    @property
    def service_ns(self) -> int:
        """How long each takes. With iops, that rate is kept exactly and the latency rounded up to a
        whole depth.
        """
        return round(self.depth * 1e9 / self.iops) if self.iops else self.latency_ns

    @property
    def max_sectors(self) -> int:
        """The largest request, in 512 bytes, or 0 for null_blk's own limit."""
        return self.rate // self.iops // PAGE * (PAGE // 512) if self.rate and self.iops else 0

    @property
    def mbps(self) -> int:
        """null_blk's own limit, in MiB a second."""
        return round(self.rate / _UNITS["M"]) if self.rate and not self.iops else 0

    @property
    def extra_mb(self) -> int:
        """Guest memory for the data: the pages, 26 bytes of tables for each (a rotating disk has
        less), and a rest.
        """
        return self.size_mb + self.size_mb // 64 + 4 if self.via == "guest" else 0

    def line(self) -> str:
        """What guest/make-disks reads."""
        if self.rpm:
            times = (self.rpm, self.seek_ns // 1000, self.rate, self.queue, self.ncq_ns // 10**6)
            return " ".join([self.name, "rotating", *map(str, (self.size_mb, *times))])
        numbers = (self.size_mb, self.depth, self.service_ns, self.max_sectors, self.mbps)
        return " ".join([self.name, self.via, *map(str, numbers)])

    def status(self) -> dict[str, object]:
        """What the guest is given, for status.json."""
        known: dict[str, object] = {"name": self.name, "via": self.via, "size_mb": self.size_mb}
        if self.rpm:
            seek = {"rpm": self.rpm, "seek_us": self.seek_ns / 1000}
            queue = {"depth": self.queue, "ncq_ms": self.ncq_ns / 1e6}
            return known | seek | {"rate": self.rate} | queue
        known |= {"iops": self.iops, "rate": self.rate}
        return (
            known
            if self.via == "qemu"
            else known
            | {
                "depth": self.depth,
                "latency_us": self.service_ns / 1000,
                "max_request": self.max_sectors * 512,
            }
        )


def _number(text: str, units: dict[str, int]) -> int | None:
    found = re.fullmatch(r"(\d+)(\.\d+)?([A-Za-z]*)", text)
    if not found or found[3] not in units:
        return None
    # "8.5ms"; only what is whole in the smallest unit is a number
    number = Fraction(found[1] + (found[2] or "")) * units[found[3]]
    return int(number) if number.denominator == 1 else None


def _value(key: str, text: str) -> dict[str, Any]:
    """The field of Disk that KEY=TEXT sets; nothing if the text is wrong, or 0."""
    if key == "via":
        return {"via": text} if text in ("guest", "qemu") else {}
    numbers: dict[str, tuple[str, dict[str, int]]] = {
        "iops": ("iops", {"": 1}),
        "rate": ("rate", _UNITS),
        "latency": ("latency_ns", _TIMES_NS),
        "rpm": ("rpm", {"": 1}),
        "seek": ("seek_ns", _TIMES_NS),
        "depth": ("queue", {"": 1}),
        "ncq": ("ncq_ns", _TIMES_NS),
    }
    field, units = numbers.get(key, ("", {}))
    number = _number(text, units)
    return {field: number} if number else {}


def parse(option: str, text: str, number: int, machine_is_virtual: bool) -> Disk:
    """A disk from text as in `512M,iops=200,rate=40M,latency=4ms`. option: --disk or --swap."""

    def wrong(why: str) -> LabError:
        return LabError(f"{option} {text}: {why}")

    size, *rest = text.split(",")
    size_bytes = _number(size, _UNITS) or 0
    if not LEAST_MB << 20 <= size_bytes <= MOST_MB << 20 or size_bytes % (1 << 20):
        raise wrong(f"{size!r} is no size from {LEAST_MB}M to {MOST_MB}M, as in 512M or 1G")
    disk = Disk(f"{option.strip('-')}{number}", size_bytes >> 20)
    seen = set()
    for item in rest:
        key, _, value = item.partition("=")
        if key in seen:
            raise wrong(f"{key} is given twice")
        seen.add(key)
        got = _value(key, value)
        if not got:
            raise wrong(
                f"{item!r} is none of iops=NUMBER, rate=SIZE (a second, as in 40M), latency=TIME "
                "(as in 4ms or 300us), via=guest or via=qemu, rpm=NUMBER, and with rpm seek=TIME "
                "(as in 8.5ms), depth=NUMBER, ncq=TIME"
            )
        disk = replace(disk, **got)
    if disk.rpm:
        return _rotating(disk, wrong, seen)
    _check(disk, wrong, machine_is_virtual)
    return disk


def _rotating(disk: Disk, wrong: Callable[[str], LabError], seen: set[str]) -> Disk:
    """The disk with what was not asked for. seen: the names of the options given."""
    for key, why in (
        ("iops", "its seeks and turns make its requests a second"),
        ("latency", "its seeks and turns make its latency"),
        ("via", "a program in the guest serves it"),
    ):
        if key in seen:
            raise wrong(f"{key} does not go with rpm: {why}")
    if disk.is_swap:
        raise wrong(
            "rpm is for --disk only: what serves such a disk is a process, and the guest "
            "ends all processes before it reads what is swapped out"
        )
    disk = replace(
        disk,
        seek_ns=disk.seek_ns or USUAL_SEEK_NS,
        rate=disk.rate or USUAL_MEDIA_RATE,
        queue=disk.queue or USUAL_QUEUE,
    )
    if not LEAST_RPM <= disk.rpm <= MOST_RPM:
        raise wrong(f"rpm={disk.rpm}: from {LEAST_RPM} to {MOST_RPM}")
    if not LEAST_SEEK_NS <= disk.seek_ns <= MOST_SEEK_NS:
        raise wrong(
            f"a mean seek of {disk.seek_ns / 1e6:g} ms: from {LEAST_SEEK_NS / 1e6:g} to "
            f"{MOST_SEEK_NS / 1e6:g} ms"
        )
    if not _UNITS["M"] <= disk.rate <= MOST_MEDIA_RATE:
        raise wrong(
            f"a media rate of {disk.rate} bytes a second: from 1M to {MOST_MEDIA_RATE >> 20}M"
        )
    if disk.queue > MOST_QUEUE:
        raise wrong(f"depth={disk.queue}: at most {MOST_QUEUE}")
    if disk.ncq_ns and not 10**6 <= disk.ncq_ns <= LONGEST_NS:
        raise wrong(f"ncq={disk.ncq_ns / 1e6:g}ms: from 1ms to {LONGEST_NS // 10**9}s")
    return disk


def _check(disk: Disk, wrong: Callable[[str], LabError], machine_is_virtual: bool) -> None:
    for key, value in (("seek", disk.seek_ns), ("depth", disk.queue), ("ncq", disk.ncq_ns)):
        if value:
            raise wrong(f"{key} is for a disk with rpm")
    if disk.via == "qemu":
        if machine_is_virtual:
            raise wrong(
                "QEMU throttles in real time, and this machine's is virtual: take --machine smp"
            )
        if disk.latency_ns:
            raise wrong("QEMU's throttle has no latency: leave it out, or via=guest")
        return
    most = MOST_IOPS if disk.latency_ns else MOST_IOPS_ALONE
    if disk.iops > most:
        raise wrong(
            f"{disk.iops} requests a second: the guest's own disk keeps {MOST_IOPS_ALONE} if it "
            f"serves one after the other, and {MOST_IOPS} with a latency"
        )
    if disk.service_ns > LONGEST_NS or disk.depth > 1024:
        raise wrong(
            f"a request would take {disk.service_ns / 1e9:g} s with {disk.depth} under way: "
            f"at most {LONGEST_NS // 10**9} s and 1024"
        )
    if disk.rate and disk.iops and not PAGE <= disk.rate // disk.iops <= MOST_REQUEST:
        raise wrong(
            f"{disk.rate // disk.iops} bytes a request (rate / iops): a request carries "
            f"{PAGE} to {MOST_REQUEST}"
        )
    if disk.rate and not disk.iops and disk.rate < _UNITS["M"]:
        raise wrong("a rate without iops is at least 1M")


def parse_all(disks: Sequence[str], swaps: Sequence[str], machine_is_virtual: bool) -> list[Disk]:
    """All disks of a guest, in the order in which they are made."""
    return [
        parse(option, text, number, machine_is_virtual)
        for option, texts in (("--disk", disks), ("--swap", swaps))
        for number, text in enumerate(texts)
    ]
