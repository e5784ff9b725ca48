"""Results as an experiment writes them, made up: for tests only."""

from __future__ import annotations

from typing import Any


def movie(counts: list[int]) -> dict[str, Any]:
    return {
        "frames_per_second": counts,
        "fewest": min(counts),
        "longest_gap_ms": 41.0,
        "mean_under_load": 24.9,
        "load_at_s": 2.0,
        "load_ends_at_s": 4.0,
        "end_at_s": 6.0,
        "startup_excluded_s": 2,
        "player_cpu_percent": 36.0,
    }


def result(ok: bool | None = True) -> dict[str, Any]:
    return {
        "experiment": "redline/fork-bomb-50",
        "title": "A movie & a bomb",
        "figure": "Fig. 5",
        "about": "About it.",
        "date": "2026-01-01 00:00 UTC",
        "command": "make experiment NAME=redline/fork-bomb-50",
        "quick": False,
        "versions": {"kernel": "7.3"},
        "conditions": {"machine": "timing", "wall_s": 1},
        "settings": {},
        "skipped": {},
        "samples": {
            "eevdf": {"light-one-be": movie([25, 25, 3, 2, 25, 25])},
            "aplomb": {"light-one-be": movie([25] * 6), "light-one-iact": movie([25] * 6)},
        },
        "table": {"headers": ["movie", "fewest"], "rows": [["light <clip>", 25]]},
        "marks": [
            {"name": "fewest frames", "value": 25, "unit": "frames", "limit": ">= 24", "ok": ok}
        ],
    }
