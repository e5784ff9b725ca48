"""Aligned tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from .marks import Mark


def cell(value: object) -> str:
    """A value as people read it: four significant digits are enough."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def render(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; numbers to the right, words to the left."""
    texts = [[cell(value) for value in row] for row in rows]
    if any(len(row) != len(headers) for row in texts):
        raise ValueError("each row needs one cell for each header")
    widths = [max(len(line[i]) for line in [list(headers), *texts]) for i in range(len(headers))]
    numeric = [
        all(isinstance(row[i], (int, float, type(None))) for row in rows)
        for i in range(len(headers))
    ]

    def line(words: Sequence[str]) -> str:
        cells = (
            w.rjust(width) if right else w.ljust(width)
            for w, width, right in zip(words, widths, numeric)
        )
        return "  ".join(cells).rstrip()

    return "\n".join(
        [line(headers), "  ".join("-" * width for width in widths), *(line(row) for row in texts)]
    )


def render_marks(marks: Sequence[Mark]) -> str:
    if not marks:
        return "no marks: the schedulers that they compare were not asked for"
    return render(
        ["mark", "value", "unit", "limit", "verdict"],
        [
            [m.name, cell(m.value), m.unit, m.limit, m.verdict + (f" ({m.note})" if m.note else "")]
            for m in marks
        ],
    )
