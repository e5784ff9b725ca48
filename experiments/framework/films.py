"""Several movies beside memory bombs (Kato section 7.2): LRU paging, memory firewalling, PSAP.

Each movie is a small one, made in the guest, so that one CPU has time for all. LRU is stock Linux
with the players at nice -20. Firewalling is the same with memory.min on a cgroup of each player,
set by hand: an amount, and what a player uses beyond that is anyone's. PSAP is aplomb with a
private reserve of as many pages, or fewer, for each player (`aplomb run --memory`), and a shared
reserve.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .experiment import Experiment, Profile, Samples, Step, Table
from .frames import STARTUP_S, parse_frames, read_load
from .marks import Mark, at_least, at_most
from .memory import BOMB_MB, BOMBS, GUEST_MB, SETTINGS, SWAP, bombs, counted, pages_a_second
from .schedulers import Reservation, Scheduler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE_KB = 4
TICK_MS = 10  # of utime and stime in /proc/PID/stat
SETTLE_S = 4
PLAYER = "mplayer -noconfig all -nolirc -noconsolecontrols -nosound -vo null {}".split()


@dataclass(frozen=True)
class Kind:
    """A movie: how many of it are played, how it is made, what each player reserves."""

    name: str
    title: str
    count: int
    rate: int
    file: str
    make: str  # {}: its length in seconds
    pages: tuple[int, ...]  # private reserves; the first one is firewalling's too
    shared_pages: int
    reservation: Reservation
    enough: int  # frames in each second

    @property
    def line(self) -> str:
        return f"/usr/bin/mplayer:iact:{self.reservation}:R:-:-"

    @property
    def profile(self) -> Profile:
        shared = f'shared-reserve = "{self.shared_pages * PAGE_KB}K"'
        return Profile((self.line,), config=("[memory]", "protect = true", shared))


H264 = Kind(
    "h264",
    "H.264 movies",
    4,
    24,
    "movie.mkv",
    "ffmpeg -v error -nostdin -y -f lavfi -i testsrc2=s=320x136:r=24 -t {} -pix_fmt yuv420p "
    "-c:v libx264 -preset superfast -bf 3 -g 96 -crf 23 movie.mkv",
    (8000, 6000),
    8000,
    Reservation(5000, 41000),
    23,
)
RAW = Kind(
    "raw",
    "uncompressed movies",
    12,
    29,
    "movie.avi",
    "ffmpeg -v error -nostdin -y -f lavfi -i testsrc2=s=160x120:r=29 -t {} -pix_fmt yuv420p "
    "-c:v rawvideo movie.avi",
    (2400,),
    2400,
    Reservation(1800, 33000),
    28,
)


@dataclass(frozen=True)
class Phases:
    """Seconds before the bombs, with them, and after them."""

    before: int
    during: int
    after: int


@dataclass(frozen=True)
class Paging:
    """A way to manage memory: the step, its scheduler, title, and reserve for each player."""

    name: str
    scheduler: str
    title: str
    pages: int | None = None


def pagings(kind: Kind) -> list[Paging]:
    fire = kind.pages[0]
    return [
        Paging("lru", "eevdf", "LRU"),
        Paging(f"firewall-{fire}", "eevdf", f"firewalling, {fire} pages", fire),
        *(Paging(f"psap-{n}", "aplomb", f"PSAP, {n} pages", n) for n in kind.pages),
    ]


def steps(kind: Kind, scheduler: Scheduler, phases: Phases, prefix: str = "") -> list[Step]:
    made = []
    length = STARTUP_S + phases.before + phases.during + phases.after
    for paging in pagings(kind):
        if paging.scheduler != scheduler.name:
            continue
        reserve, words = "-", list(scheduler.prefix(kind.reservation))
        if paging.pages and scheduler.name == "aplomb":
            words = ["/job/aplomb", "run", "--memory", f"{paging.pages * PAGE_KB}K", "--"]
        elif paging.pages:
            reserve = f"min={paging.pages * PAGE_KB * 1024}"
        starts = 2 * kind.count  # s, until all play
        all_words = [
            "films",
            kind.count,
            kind.make.format(length + starts + 30),
            reserve,
            STARTUP_S,
            phases.before,
            phases.during,
            phases.after,
            *words_before_dashes(words),
            "--",
            *(word.format(kind.file) for word in PLAYER),
            "--",
            *bombs(phases.during),
        ]
        made.append(
            Step(
                f"{prefix}{paging.name}",
                [str(word) for word in all_words],
                length + starts + 30,
                kind.name,
            )
        )
    return made


def words_before_dashes(words: Sequence[str]) -> list[str]:
    """A prefix that has no "--" of its own: the guest's function ends it by one. (`aplomb run`
    takes its command without.)"""
    return [word for word in words if word != "--"]


def read(folder: Path) -> dict[str, Any]:
    movies = []
    count = len(list(folder.glob("frames-*")))
    times = {
        phase: (folder / f"times-{phase}").read_text().splitlines()
        for phase in ("before", "load", "after", "end")
    }
    for n in range(count):
        movie = parse_frames((folder / f"frames-{n + 1}").read_text(), f"frames-{n + 1}")
        movies.append(
            {
                "frames_per_second": movie.per_second,
                "fewest": movie.fewest,
                "longest_gap_ms": round(movie.longest_gap_ms, 1),
                "mean_under_load": round(movie.mean_under_load, 2),
                **used(times["load"][n], times["after"][n], movie.times, movie),
                "major_faults": faults(times["before"][n], times["end"][n]),
                "load_at_s": round(movie.load_at, 2),
                "load_ends_at_s": round(movie.after_at, 2),
            }
        )
    return {
        "movies": movies,
        "under_bombs": counted(folder, "load", "after"),
        "bomb_pages_per_s": pages_a_second(read_load(folder / "load"), SETTLE_S),
    }


def faults(first: str, last: str) -> int | None:
    if "ended" in (first, last):
        return None
    return int(last.split()[2]) - int(first.split()[2])


def used(first: str, last: str, times: Sequence[float], movie: Any) -> dict[str, float | None]:
    """User and system time of a frame under load, ms."""
    shown = sum(1 for time in times if movie.load_at <= time < movie.after_at)
    if "ended" in (first, last) or not shown:
        return {"user_ms": None, "system_ms": None}
    (user0, system0, _), (user1, system1, _) = (
        [int(word) for word in line.split()] for line in (first, last)
    )
    return {
        "user_ms": round(TICK_MS * (user1 - user0) / shown, 3),
        "system_ms": round(TICK_MS * (system1 - system0) / shown, 3),
    }


def worst(sample: Mapping[str, Any]) -> int:
    """The worst movie's worst second."""
    return min(int(movie["fewest"]) for movie in sample["movies"])


def average(sample: Mapping[str, Any]) -> float:
    """Frames a second under load, over all movies."""
    each = [float(movie["mean_under_load"]) for movie in sample["movies"]]
    return round(sum(each) / len(each), 2)


def mean(sample: Mapping[str, Any], what: str) -> float | None:
    """Over all movies that lived on."""
    each = [movie[what] for movie in sample["movies"] if movie[what] is not None]
    return round(sum(each) / len(each), 3) if each else None


def found(kind: Kind, samples: Samples, prefix: str = "") -> Iterator[tuple[Paging, Any]]:
    for paging in pagings(kind):
        sample = samples.get(paging.scheduler, {}).get(f"{prefix}{paging.name}")
        if sample is not None:
            yield paging, sample


def judge(kind: Kind, samples: Samples) -> list[Mark]:
    by_name = {paging.name: sample for paging, sample in found(kind, samples)}
    fire = by_name.get(f"firewall-{kind.pages[0]}")
    marks = []
    for pages in kind.pages:
        if (ours := by_name.get(f"psap-{pages}")) is None:
            continue
        title = f"PSAP, {pages} pages"
        marks.append(
            at_least(f"worst movie's worst second ({title})", worst(ours), kind.enough, "frames")
        )
        name = f"average ({title}), against firewalling with {kind.pages[0]} pages"
        marks.append(at_least(name, average(ours), average(fire) if fire else None, "frames/s"))
        if pages == kind.pages[0]:
            name = f"worst second ({title}), against firewalling with the same pages"
            marks.append(at_least(name, worst(ours), worst(fire) if fire else None, "frames"))
    return marks


def table(kind: Kind, samples: Samples) -> Table:
    rows = [
        [
            paging.title,
            worst(sample),
            average(sample),
            max(movie["longest_gap_ms"] for movie in sample["movies"]),
            sum(movie["major_faults"] or 0 for movie in sample["movies"]),
            sample["bomb_pages_per_s"],
            sample["under_bombs"]["oom_kill"],
        ]
        for paging, sample in found(kind, samples)
    ]
    return [
        "paging",
        "worst second",
        "average frames/s",
        "longest gap ms",
        "major faults",
        "bombs' pages/s",
        "OOM kills",
    ], rows


def draw(kind: Kind, samples: Samples) -> Figure:
    """Frames of the worst movie in each second, as in Figs. 24 and 26."""
    from . import plot

    figure, (axis,) = plot.grid(1, 1, 6.4, 3.0)
    for paging, sample in found(kind, samples):
        lines = [movie["frames_per_second"] for movie in sample["movies"]]
        least = [min(second) for second in zip(*lines)]
        style = ":" if paging.name == "lru" else "--" if paging.name == "psap-6000" else "-"
        colour = "#2ca02c" if paging.name.startswith("firewall") else plot.colour(paging.scheduler)
        axis.plot(
            [s + 0.5 for s in range(len(least))], least, style, label=paging.title, color=colour
        )
        first = sample["movies"][0]
        axis.axvspan(first["load_at_s"], first["load_ends_at_s"], color="#000000", alpha=0.015)
    axis.set_ylim(0, kind.rate + 8)
    axis.set_xlabel("time (s); grey: the bombs run")
    axis.set_ylabel("frames/s of the worst movie")
    axis.legend(fontsize=8, loc="lower left")
    figure.suptitle(f"{kind.count} {kind.title} beside memory bombs", fontsize=10)
    return figure


def overhead_marks(kind: Kind, samples: Samples, prefix: str) -> list[Mark]:
    """Figs. 28 and 29: PSAP makes the player use no more of the system's time than firewalling."""
    by_name = {paging.name: sample for paging, sample in found(kind, samples, prefix)}
    fire = by_name.get(f"firewall-{kind.pages[0]}")
    ours = by_name.get(f"psap-{kind.pages[0]}")
    if ours is None:
        return []
    return [
        at_most(
            f"system time of a frame ({kind.title}), against firewalling's",
            mean(ours, "system_ms"),
            mean(fire, "system_ms") if fire else None,
            "ms",
        )
    ]


def beside_bombs(kind: Kind, figure: str) -> Experiment:
    """The experiment that plays movies of this kind before, during and after the bombs."""
    lengths, quick_lengths = Phases(5, 30, 5), Phases(3, 12, 3)

    def make(scheduler: Scheduler, quick: bool) -> list[Step]:
        return steps(kind, scheduler, quick_lengths if quick else lengths)

    return Experiment(
        title=f"{kind.count} {kind.title} beside memory bombs",
        figure=figure,
        about=f"{kind.count} instances of mplayer show a small movie of {kind.rate} frames a "
        f"second in a guest of {GUEST_MB} MB; after {lengths.before} s {BOMBS} tasks write to each "
        f"page of {BOMB_MB} MB each, again and again, for {lengths.during} s.",
        steps=make,
        read=read,
        judge=partial(judge, kind),
        table=partial(table, kind),
        draw=partial(draw, kind),
        schedulers=("eevdf", "aplomb"),
        profiles={kind.name: kind.profile},
        settings={
            **SETTINGS,
            "movies": kind.count,
            "private_pages": list(kind.pages),
            "shared_pages": kind.shared_pages,
            "reservation_ms": str(kind.reservation),
            "phases_s": [lengths.before, lengths.during, lengths.after],
        },
        memory_mb=GUEST_MB,
        swaps=(SWAP,),
    )
