"""One self-contained HTML page of all results: pictures, tables, marks in plain words, how to
measure again."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from . import results
from .errors import ExperimentError
from .experiment import PAPERS
from .table import cell

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff }
table { border-collapse: collapse; font-size: 13px; margin: .8rem 0; display: block;
  overflow-x: auto }
td, th { padding: .15rem .6rem; border-bottom: 1px solid #ddd; text-align: left }
td.n { text-align: right; font-variant-numeric: tabular-nums }
svg { max-width: 100%; height: auto }
.ok { color: #176f2c } .missed { color: #b3261e; font-weight: 600 } .none { color: #777 }
code { background: #f3f3f3; padding: .1rem .3rem }
section { margin: 3rem 0 } details { font-size: 13px }
"""


def _inline_svg(path: Path) -> str:
    if not path.exists():
        return "<p>(no picture)</p>"
    return re.sub(r"<\?xml.*?\?>|<!DOCTYPE.*?>", "", path.read_text(), flags=re.DOTALL).strip()


def _table(table: dict[str, Any]) -> str:
    head = "".join(f"<th>{escape(str(h))}</th>" for h in table["headers"])
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=n' if isinstance(v, (int, float)) else ''}>{escape(cell(v))}</td>"
            for v in row
        )
        + "</tr>"
        for row in table["rows"]
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def mark_in_words(mark: dict[str, Any]) -> str:
    """E.g. "fewest frames in a second: 25 frames/s, must be >= 24: met"."""
    kind, word = {True: ("ok", "met"), False: ("missed", "missed"), None: ("none", "not judged")}[
        mark["ok"]
    ]
    note = f" ({mark['note']})" if mark.get("note") else ""
    return (
        f"{escape(mark['name'])}: {escape(cell(mark['value']))} {escape(mark['unit'])}, must be "
        f"{escape(mark['limit'])}: <span class={kind}>{word}</span>{escape(note)}"
    )


def _section(data: dict[str, Any], svg: Path) -> str:
    marks = "".join(f"<li>{mark_in_words(mark)}</li>" for mark in data["marks"])
    versions = ", ".join(f"{escape(k)} {escape(str(v))}" for k, v in data["versions"].items() if v)
    conditions = ", ".join(f"{escape(k)} {escape(str(v))}" for k, v in data["conditions"].items())
    skipped = "".join(f"<p>Skipped: {escape(why)}</p>" for why in data["skipped"].values())
    return (
        f"<section id='{escape(data['experiment'])}'><h2>{escape(data['title'])}</h2>"
        f"<p>{escape(data['figure'])}. {escape(data['about'])}</p>{_inline_svg(svg)}{skipped}"
        f"<h3>Marks</h3><ul>{marks or '<li>none</li>'}</ul>"
        f"<details open><summary>All numbers</summary>{_table(data['table'])}</details>"
        f"<p><code>{escape(data['command'])}</code>, {escape(data['date'])}. Versions: {versions}. "
        f"Conditions: {conditions}.</p></section>"
    )


def build_page(found: list[tuple[dict[str, Any], Path]]) -> str:
    """The page for these results and their pictures."""
    marks = [mark for data, _ in found for mark in data["marks"]]
    met, lost = (sum(1 for m in marks if m["ok"] is value) for value in (True, False))
    links = "".join(
        f"<li><a href='#{escape(d['experiment'])}'>{escape(d['experiment'])}</a>: "
        f"{escape(d['title'])} "
        f"({sum(1 for m in d['marks'] if m['ok'])} of {len(d['marks'])} marks met)</li>"
        for d, _ in found
    )
    sections = "".join(_section(data, svg) for data, svg in found)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
        "content='width=device-width'>"
        f"<title>aplomb: results</title><style>{_STYLE}</style><h1>aplomb: results</h1>"
        f"<p>{len(found)} experiments, {met} marks met, {lost} missed, {len(marks) - met - lost} "
        "not judged.</p>"
        f"<ul>{links}</ul>{sections}</html>\n"
    )


def write_report(folder: Path) -> Path:
    """Read all results below the folder, write its report.html. Raises ExperimentError if there are
    none."""
    files = [file for paper in PAPERS for file in sorted((folder / paper).glob("*.json"))]
    if not files:
        raise ExperimentError(f"there are no results in {folder}: run make experiment NAME=…")
    page = build_page([(results.read(file), file.with_suffix(".svg")) for file in files])
    path = folder / "report.html"
    results.write_file(path, page)
    return path
