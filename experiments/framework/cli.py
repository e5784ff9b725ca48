"""The command line: python -m experiments run|list|draw|report|traces."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from . import experiment as experiments
from .errors import ExperimentError
from .marks import Mark, missed
from .results import RESULTS
from .table import render, render_marks

# Exit codes: 0 all marks met, 1 a mark missed, 2 wrong usage, 3 an experiment could not be run.
MISSED, USAGE, FAILED = 1, 2, 3


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="experiments", description="The papers' figures and tables, measured in the lab."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    doing = actions.add_parser(
        "run", help="run experiments; write JSON and SVG; fail when a mark is missed"
    )
    doing.add_argument("names", nargs="+", metavar="NAME", help="PAPER/NAME, or all")
    doing.add_argument("--schedulers", metavar="A,B", help="only these (results go to results/tmp)")
    doing.add_argument(
        "--quick", action="store_true", help="short and few, for a look or for CI (results/tmp)"
    )
    doing.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="guests at a time (default %(default)s)"
    )
    doing.add_argument("--out", type=Path, metavar="DIR", help="instead of results or results/tmp")
    doing.add_argument(
        "--keep", action="store_true", help="keep what the guests left, and say where"
    )
    doing.add_argument(
        "--json", action="store_true", help="print the results as JSON instead of tables"
    )
    listing = actions.add_parser("list", help="what there is")
    listing.add_argument("--json", action="store_true")
    drawing = actions.add_parser(
        "draw", help="draw pictures and judge anew from results that are there"
    )
    drawing.add_argument("names", nargs="+", metavar="NAME")
    drawing.add_argument("--out", type=Path, default=RESULTS, metavar="DIR")
    drawing.add_argument("--png", type=Path, metavar="DIR", help="write PNG files there instead")
    reporting = actions.add_parser("report", help="one self-contained HTML page of all results")
    reporting.add_argument(
        "--out",
        type=Path,
        default=RESULTS,
        metavar="DIR",
        help="where results are (default results)",
    )
    shipping = actions.add_parser(
        "traces", help="write the simulator's traces from the result of kato/record"
    )
    shipping.add_argument(
        "--out",
        type=Path,
        default=RESULTS,
        metavar="DIR",
        help="where results are (default results)",
    )
    return parser


def _command(options: argparse.Namespace, name: str) -> str:
    """The command that measures this result again."""
    if not (options.quick or options.schedulers):
        return f"make experiment NAME={name}"
    words = [".venv/bin/python -m experiments run", name]
    words += ["--quick"] if options.quick else []
    words += ["--schedulers", options.schedulers] if options.schedulers else []
    return " ".join(words)


def _run(options: argparse.Namespace) -> int:
    from . import simulator
    from .runner import run

    if options.jobs < 1:
        raise ExperimentError("--jobs: at least 1")
    names = experiments.names() if options.names == ["all"] else options.names
    asked = options.schedulers.split(",") if options.schedulers else None
    out = options.out or (RESULTS / "tmp" if options.quick or asked else RESULTS)
    chosen = [experiments.load(name) for name in names]
    worst, everything = 0, []
    for each in chosen:
        try:
            if isinstance(each, experiments.Study):
                if asked:
                    raise ExperimentError(f"{each.name}: a study has no schedulers to choose from")
                data = simulator.run(each, options.quick, out, _command(options, each.name))
            else:
                data = run(
                    each,
                    asked,
                    options.quick,
                    options.jobs,
                    out,
                    _command(options, each.name),
                    quiet=options.json,
                    keep_output=options.keep,
                )
        except ExperimentError as error:
            if len(chosen) == 1:
                raise
            print(
                f"experiments: {each.name}: {error}", file=sys.stderr
            )  # the others are worth running still
            worst = max(worst, FAILED)
            continue
        everything.append(data)
        marks = [Mark(**mark) for mark in data["marks"]]
        if not options.json:
            print(f"\n{each.name}: {each.title} ({each.figure})\n")
            print(render(data["table"]["headers"], data["table"]["rows"]) + "\n")
            print(render_marks(marks) + "\n")
            print(
                f"written: {_short(out)}/{each.name}.json and .svg, in "
                f"{data['conditions']['wall_s']} s",
                flush=True,
            )
        if missed(marks):
            worst = max(worst, MISSED)
    if options.json:
        print(json.dumps(everything, indent=1))
    return worst


def _short(path: Path) -> str:
    return os.path.relpath(path)


def _list(options: argparse.Namespace) -> int:
    found = [experiments.load(name) for name in experiments.names()]
    if options.json:
        print(
            json.dumps(
                [
                    {
                        "name": e.name,
                        "title": e.title,
                        "figure": e.figure,
                        "machine": e.machine,
                        "schedulers": getattr(e, "schedulers", ()),
                    }
                    for e in found
                ]
            )
        )
    else:
        print(render(["name", "title", "figure"], [[e.name, e.title, e.figure] for e in found]))
    return 0


def _draw(options: argparse.Namespace) -> int:
    """From the samples that were kept: a change to a picture or a table needs no new
    measurement."""
    from . import plot, results
    from .runner import draw

    worst = 0
    for name in experiments.names() if options.names == ["all"] else options.names:
        each = experiments.load(name)
        path = options.out / f"{name}.json"
        if options.names == ["all"] and not path.exists():
            continue
        data = results.read(path)
        if options.png:
            plot.save_png(each.draw(data["samples"]), options.png / f"{name.replace('/', '-')}.png")
            continue
        marks = list(each.judge(data["samples"])) if each.subject in data["samples"] else []
        headers, rows = each.table(data["samples"])
        data |= {
            "marks": [mark.as_json() for mark in marks],
            "title": each.title,
            "figure": each.figure,
            "about": each.about,
            "table": {"headers": list(headers), "rows": [list(row) for row in rows]},
        }
        results.write(data, options.out)
        draw(each, data["samples"], options.out)
        worst = max(worst, MISSED if missed(marks) else 0)
    return worst


def _report(options: argparse.Namespace) -> int:
    from .report import write_report

    print(f"written: {_short(write_report(options.out))}")
    return 0


def _traces(options: argparse.Namespace) -> int:
    from . import results, traces

    recorded = results.read(options.out / "kato" / "record.json")
    if recorded["quick"]:
        raise ExperimentError("a quick run is no trace: make experiment NAME=kato/record")
    for path in traces.write_traces(recorded, recorded["settings"]["movies"]):
        print(f"written: {_short(path)}")
    return 0


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        return {"run": _run, "list": _list, "draw": _draw, "report": _report, "traces": _traces}[
            options.action
        ](options)
    except ExperimentError as error:
        print(f"experiments: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("experiments: interrupted", file=sys.stderr, flush=True)
        os._exit(130)  # guests end with us; their threads are not waited for
