"""A movie's frame times: what the guest's function `movie` leaves, as frames in every second and
the longest gap.

The player's status line goes to the kernel's trace_marker, so the kernel stamps each frame as it is
shown (monotonic clock, microseconds). Start-up is outside of the measurement: counting begins with
the phase "before", which the guest starts STARTUP_S after the first frame.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ExperimentError

STARTUP_S = 2
FRAMES_PER_S = 25
PHASES = ("before", "load", "after", "end")


@dataclass(frozen=True)
class Movie:
    """Frame times in seconds since the phase "before" began, and when the later phases began."""

    times: list[float]
    load_at: float
    after_at: float
    end_at: float
    player_cpu: float | None = None  # of a CPU, before the load
    load: dict[str, Any] | None = None  # what the load said of itself

    @property
    def per_second(self) -> list[int]:
        """Frames in each whole second.

        Seconds begin half a frame before the first frame, so that a frame that is a little early or
        late is not counted in the neighbouring second.
        """
        if not self.times:
            return [0] * int(self.end_at)
        start = self.times[0] - 0.5 / FRAMES_PER_S
        seconds = int(self.end_at - start)
        counts = [0] * seconds
        for time in self.times:
            if time - start < seconds:
                counts[int(time - start)] += 1
        return counts

    @property
    def fewest(self) -> int:
        return min(self.per_second, default=0)

    @property
    def longest_gap_ms(self) -> float:
        """Longest time without a new frame, up to the end of the measurement."""
        times = [*self.times, self.end_at]
        first = self.times[0] if self.times else 0.0
        return 1000 * max((b - a for a, b in itertools.pairwise([first, *times])), default=0.0)

    @property
    def mean_under_load(self) -> float:
        """Frames a second while the load runs."""
        inside = sum(1 for time in self.times if self.load_at <= time < self.after_at)
        return inside / (self.after_at - self.load_at)

    def as_json(self) -> dict[str, Any]:
        return {
            "frames_per_second": self.per_second,
            "fewest": self.fewest,
            "longest_gap_ms": round(self.longest_gap_ms, 1),
            "mean_under_load": round(self.mean_under_load, 2),
            "load_at_s": round(self.load_at, 2),
            "load_ends_at_s": round(self.after_at, 2),
            "end_at_s": round(self.end_at, 2),
            "startup_excluded_s": STARTUP_S,
            **(
                {"player_cpu_percent": round(100 * self.player_cpu, 1)}
                if self.player_cpu is not None
                else {}
            ),
            **({"load": self.load} if self.load else {}),
        }


def parse_frames(text: str, where: str = "frames") -> Movie:
    """Lines of "SECONDS frame" or "SECONDS PHASE", as the guest writes them. Raises ExperimentError
    if malformed."""
    frames: list[float] = []
    phases: dict[str, float] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        try:
            time = float(words[0])
            word = words[1]
        except (IndexError, ValueError):
            raise ExperimentError(
                f"{where}, line {number}: {line!r} is not a time and a word"
            ) from None
        if word == "frame":
            frames.append(time)
        elif word in PHASES:
            phases[word] = time
        else:
            raise ExperimentError(f"{where}, line {number}: there is no phase {word!r}")
    lacking = [phase for phase in PHASES if phase not in phases]
    if lacking:
        raise ExperimentError(
            f"{where}: the phase {lacking[0]!r} is missing; the trace buffer may have been too "
            "small"
        )
    start, end = phases["before"], phases["end"]
    return Movie(
        [time - start for time in sorted(frames) if start <= time < end],
        phases["load"] - start,
        phases["after"] - start,
        end - start,
    )


def read_movie(folder: Path) -> Movie:
    """What a step with the function `movie` left in its folder."""
    movie = parse_frames((folder / "frames").read_text(), str(folder / "frames"))
    # schedstat: CPU time, waiting time (both ns), turns.
    used = [
        int((folder / name).read_text().split()[0])
        for name in ("schedstat-before", "schedstat-load")
    ]
    return Movie(
        movie.times,
        movie.load_at,
        movie.after_at,
        movie.end_at,
        (used[1] - used[0]) / 1e9 / movie.load_at,
        read_load(folder / "load"),
    )


def read_load(path: Path) -> dict[str, Any] | None:
    """What a load printed about itself: its last line, if that is a JSON object."""
    try:
        data = json.loads(path.read_text().splitlines()[-1])
    except (OSError, IndexError, json.JSONDecodeError):
        return None
    return data if isinstance(data, dict) else None
