"""Pictures in the form of the papers' figures: one style, and SVG files that only change when the
data does."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .results import write_file
from .schedulers import all_schedulers

STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "axes.titlesize": 9,
}
matplotlib.rcParams.update(STYLE)


def grid(
    rows: int, columns: int, width: float = 4.2, height: float = 2.6, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of panels, in reading order."""
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(width * columns, height * rows), squeeze=False, **options
    )
    return figure, list(axes.flat)


def colour(scheduler: str) -> str:
    return all_schedulers()[scheduler].colour


def title(scheduler: str) -> str:
    return all_schedulers()[scheduler].title


def exceeding(
    axis: Axes, scheduler: str, total: int, below_us: Mapping[str, int], label: str
) -> None:
    """For each latency the part of `total` wake-ups that took longer, both axes by logarithm.
    below_us: how many took less than so many us, and not less than the bound before."""
    left = total
    xs, ys = [1.0], [1.0]
    for bound, count in below_us.items():
        left -= count
        xs.append(float(bound))
        ys.append(left / total)
    axis.plot(
        xs,
        [max(y, 1e-4) for y in ys],
        drawstyle="steps-post",
        color=colour(scheduler),
        linewidth=2 if scheduler == "aplomb" else 1.3,
        label=label,
    )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_ylim(2e-4, 1.3)
    axis.set_xlabel("wake-up latency (us)")


def one_legend(figure: Figure, axes: list[Axes], columns: int = 4) -> None:
    """One legend below all panels, each label once."""
    lines: dict[str, Any] = {}
    for axis in axes:
        for line, label in zip(*axis.get_legend_handles_labels()):
            lines.setdefault(label, line)
    figure.legend(
        lines.values(), lines.keys(), loc="outside lower center", ncols=columns, fontsize=8
    )


def save(figure: Figure, path: Path, name: str) -> None:
    """Write the SVG; the name makes its identifiers unique among pictures of one page."""
    text = io.StringIO()
    with pyplot.rc_context({"svg.hashsalt": name}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": "aplomb experiments"})
    pyplot.close(figure)
    write_file(path, text.getvalue())


def save_png(figure: Figure, path: Path) -> None:
    """For looking at a picture where no viewer of SVG is at hand."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", dpi=110)
    pyplot.close(figure)
