"""Marks: what a result must show. A mark is set before the measurement and never loosened to fit.

A mark is ok (True), missed (False), or not judged (None) when a value that it needs was not
measured, for instance since an optional scheduler is not installed. Only a missed mark fails an
experiment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Mark:
    """One thing that was judged. `limit` is in words that read after the value, e.g. ">= 24"."""

    name: str
    value: float | None
    unit: str
    limit: str
    ok: bool | None
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        data = asdict(self)
        if not self.note:
            del data["note"]
        return data

    @property
    def verdict(self) -> str:
        return {True: "ok", False: "MISSED", None: "not judged"}[self.ok]


def _number(value: float) -> str:
    return f"{value:.6g}"


def at_least(
    name: str, value: float | None, limit: float | None, unit: str, note: str = ""
) -> Mark:
    """The value must not be below the limit. Without a value or a limit the mark is not judged."""
    if limit is None:
        return Mark(name, value, unit, "not measured", None, note)
    return Mark(
        name, value, unit, f">= {_number(limit)}", None if value is None else value >= limit, note
    )


def at_most(name: str, value: float | None, limit: float | None, unit: str, note: str = "") -> Mark:
    """The value must not be above the limit. Without a value or a limit the mark is not judged."""
    if limit is None:
        return Mark(name, value, unit, "not measured", None, note)
    return Mark(
        name, value, unit, f"<= {_number(limit)}", None if value is None else value <= limit, note
    )


def below(name: str, value: float | None, limit: float | None, unit: str, note: str = "") -> Mark:
    """The value must be below the limit."""
    if limit is None:
        return Mark(name, value, unit, "not measured", None, note)
    return Mark(
        name, value, unit, f"< {_number(limit)}", None if value is None else value < limit, note
    )


def between(
    name: str, value: float | None, low: float, high: float, unit: str, note: str = ""
) -> Mark:
    """The value must lie in the closed interval."""
    return Mark(
        name,
        value,
        unit,
        f"{_number(low)} to {_number(high)}",
        None if value is None else low <= value <= high,
        note,
    )


def missed(marks: Iterable[Mark]) -> list[Mark]:
    return [mark for mark in marks if mark.ok is False]
