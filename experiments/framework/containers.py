"""A tree of domains as systemd makes it on a server, checked against the arithmetic: weights by
slice, service and container, and limits (cpu.max) at depths 1 to 16.

In the tree are a user slice with two users, a system slice with 40 services, of which six are busy
and the others wake up now and then, and a machine slice with ten containers, of which four have a
limit below what their weight would give them. What the limited ones and the sleepers leave goes to
the others by weight (domains.asked).

cpu.max is judged by its worst second. On `smp` it is also judged over the whole run: there time is
real, and the host stops the machine now and then. The same in virtual time is on `timing-smp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .domains import Domain, asked, cpus_title, loops, points_off, read_samples, step_words, windows
from .experiment import Experiment, Samples, Step, Table
from .marks import Mark, at_most
from .schedulers import Scheduler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTLE_S, SECONDS, QUICK_SECONDS, INTERVAL_MS = 3, 60, 20, 100
# The period of the limits. A limited domain is sampled at each tick: a sample in the middle of a
# period would cut it in two.
PERIOD_S, FINE = (
    0.1,
    ("fine=1",),
)
# Over which the shares of slices are judged; those of single domains over the whole run.
WINDOW_S = 10
BUSY_WEIGHTS = (50, 100, 100, 100, 200, 400)
SERVICES = 40
FREE_WEIGHTS = (100, 100, 200, 200, 400, 1000)
LIMITS = (0.02, 0.04, 0.06, 0.08)  # of the machine
LIMITED_WEIGHT = 1000
SLICES = {"user.slice": 100, "system.slice": 200, "machine.slice": 300}
# A domain with less than this of the machine is told in the table only: 0.5 points of 1 % in 10 s
# are half a millisecond, less than the turn of a program under any scheduler.
JUDGED_FROM = 0.015
DEPTHS, QUICK_DEPTHS = (1, 4, 16), (1, 16)
LIMIT, LIMIT_SECONDS, QUICK_LIMIT_SECONDS = 0.2, 10, 5
LIMIT_TITLES = {"limit-above": "limit at depth 1, program at depth 16"}


def tree(cpus: int) -> list[Domain]:
    """Slices first, so that they have their weights before anything is below them."""
    found = [Domain(name, weight=weight) for name, weight in SLICES.items()]
    found += [
        Domain("user.slice/user-1000.slice", weight=200),
        Domain("user.slice/user-1001.slice"),
        loops("user.slice/user-1000.slice/session-1.scope"),
        loops("user.slice/user-1000.slice/session-2.scope"),
        loops("user.slice/user-1001.slice/session-3.scope"),
    ]
    for number in range(SERVICES):
        path = f"system.slice/s{number}.service"
        if number < len(BUSY_WEIGHTS):
            found.append(loops(path, BUSY_WEIGHTS[number]))
        else:
            found.append(Domain(path, ("/job/sleeper", "100", "100000", "100000")))
    for number, weight in enumerate(FREE_WEIGHTS):
        found += [
            Domain(f"machine.slice/c{number}", weight=weight),
            loops(f"machine.slice/c{number}/payload", processes=2),
        ]
    for number, limit in enumerate(LIMITS):
        path = f"machine.slice/l{number}"
        found += [
            Domain(path, weight=LIMITED_WEIGHT, limit=limit * cpus),
            loops(f"{path}/payload", processes=2, keys=FINE),
        ]
    return found


def limited(name: str, cpus: int) -> list[Domain]:
    """A domain with a limit, and one beside it that takes all it can."""
    hog = loops("hog", processes=cpus)
    if name == "limit-above":
        return [
            Domain("d1", limit=LIMIT * cpus),
            loops(f"{nested(15)}/leaf", processes=cpus, keys=FINE),
            hog,
        ]
    depth = int(name.removeprefix("limit-"))
    return [
        loops(
            f"{nested(depth - 1)}/leaf".lstrip("/"), processes=cpus, limit=LIMIT * cpus, keys=FINE
        ),
        hog,
    ]


def nested(depth: int) -> str:
    return "/".join(f"d{k}" for k in range(1, depth + 1))


def _size(value: float) -> float:
    return abs(value)


def worst_windows(
    at: list[float], cpu: list[float], quota: float, period_s: float
) -> dict[str, float]:
    """The worst second, in percent off the quota: of those that begin where a period does, and of
    all. Where periods begin is not written anywhere: it is the place for which the worst is
    least."""
    interval = (at[-1] - at[0]) / (len(at) - 1)
    places = max(1, round(period_s / interval))

    def worst(start: int) -> float:
        return max(
            (points_off(got, quota) for got in windows(at[start:], cpu[start:], 1.0, period_s)),
            key=_size,
        )

    by_place = [worst(start) for start in range(places)]
    least, most = min(by_place, key=_size), max(by_place, key=_size)
    return {"aligned": round(least, 4), "any": round(most, 4)}


def read_tree(folder: Path, cpus: int) -> dict[str, Any]:
    """CPUs that each domain received, was asked to get, and the worst seconds of the limited
    ones."""
    sample = read_samples(folder)
    at, domains = sample["at_s"], sample["domains"]
    nodes = {d.path: d for d in tree(cpus)}

    def shares(first: int, last: int) -> tuple[dict[str, float], dict[str, float]]:
        seconds = at[last] - at[first]
        got = {
            path: (d["cpu_s"][last] - d["cpu_s"][first]) / seconds for path, d in domains.items()
        }
        sleepers = {
            path: cpu
            for path, cpu in got.items()
            if nodes[path].program and nodes[path].threads == 0
        }
        return got, asked(tree(cpus), cpus, sleepers, sum(got.values()))

    def by_slice(cpu: dict[str, float]) -> dict[str, float]:
        return {
            name: sum(v for path, v in cpu.items() if path.startswith(f"{name}/"))
            for name in SLICES
        }

    got, should = shares(0, len(at) - 1)
    span = round(WINDOW_S / (at[-1] / (len(at) - 1)))
    slices: dict[str, list[float]] = {name: [] for name in SLICES}
    for first in range(0, len(at) - span, span):
        g, s = (by_slice(cpu) for cpu in shares(first, first + span))
        for name in SLICES:
            slices[name].append(round(points_off(g[name], s[name]), 4))
    fine = read_samples(folder, "fine.json")
    limits = {}
    for payload, d in fine["domains"].items():
        container = payload.rpartition("/")[0]
        quota = nodes[container].limit
        if quota is None:
            raise ValueError(f"{container} was sampled at each tick, but it has no limit")
        limits[container] = worst_windows(fine["at_s"], d["cpu_s"], quota, PERIOD_S)
    return {
        "seconds": at[-1],
        "used": round(sum(got.values()), 5),
        "late_us": sample["late_us"],
        "fine_late_us": fine["late_us"],
        "domains": {
            path: {"got": round(got[path], 6), "asked": round(should[path], 6)} for path in domains
        },
        "slices": {
            name: {
                "got": round(by_slice(got)[name], 6),
                "asked": round(by_slice(should)[name], 6),
                "off": slices[name],
            }
            for name in SLICES
        },
        "limits": limits,
    }


def read_limit(folder: Path, cpus: int) -> dict[str, Any]:
    sample, fine = read_samples(folder), read_samples(folder, "fine.json")
    (leaf,) = fine["domains"].values()
    at = fine["at_s"]
    hog = sample["domains"]["hog"]["cpu_s"][-1] / sample["at_s"][-1]
    return {
        "quota": LIMIT * cpus,
        "mean": round(leaf["cpu_s"][-1] / at[-1], 6),
        "rest": round(hog, 6),
        **worst_windows(at, leaf["cpu_s"], LIMIT * cpus, PERIOD_S),
    }


def limit_title(step: str) -> str:
    return LIMIT_TITLES.get(step, f"limit and program at depth {step.removeprefix('limit-')}")


def containers(cpus: int, limit: float, machine: str) -> Experiment:
    def make(scheduler: Scheduler, quick: bool) -> list[Step]:
        seconds, short = (QUICK_SECONDS, QUICK_LIMIT_SECONDS) if quick else (SECONDS, LIMIT_SECONDS)
        steps = [
            Step(
                "tree",
                step_words(tree(cpus), SETTLE_S, INTERVAL_MS, seconds * 1000 // INTERVAL_MS),
                seconds + SETTLE_S + 5,
            )
        ]
        for name in [
            *(f"limit-{depth}" for depth in (QUICK_DEPTHS if quick else DEPTHS)),
            "limit-above",
        ]:
            steps.append(
                Step(
                    name,
                    step_words(limited(name, cpus), 1, INTERVAL_MS, short * 1000 // INTERVAL_MS),
                    short + 2,
                )
            )
        return steps

    def read(folder: Path) -> dict[str, Any]:
        return read_tree(folder, cpus) if folder.name == "tree" else read_limit(folder, cpus)

    def judged(sample: Mapping[str, Any]) -> dict[str, Any]:
        return {
            path: d
            for path, d in sample["domains"].items()
            if d["asked"] >= JUDGED_FROM * cpus
            and path.rpartition("/")[0] not in sample["limits"]
            and d["asked"] > 0
            and not is_sleeper(path)
        }

    def judge(samples: Samples) -> list[Mark]:
        ours = samples["aplomb"]
        sample = ours["tree"]
        slices = max(
            (abs(off) for s in sample["slices"].values() for off in s["off"]), default=None
        )
        domains = max(abs(points_off(d["got"], d["asked"])) for d in judged(sample).values())
        marks = [
            at_most(
                f"share received against share asked, slices, worst {WINDOW_S} s, off 100 by",
                slices,
                limit,
                "points",
            ),
            at_most(
                "share received against share asked, busy services, sessions and containers, "
                "off 100 by",
                round(domains, 3),
                limit,
                "points",
            ),
            at_most(
                "cpu.max, worst second of 4 containers in the tree, off the quota by",
                max(abs(w["aligned"]) for w in sample["limits"].values()),
                1.0,
                "%",
            ),
        ]
        alone = {step: s for step, s in ours.items() if step != "tree"}
        marks += [
            at_most(
                f"cpu.max, worst second, {limit_title(step)}, off the quota by",
                abs(s["aligned"]),
                1.0,
                "%",
            )
            for step, s in alone.items()
        ]
        if machine == "smp":
            whole = max(
                abs(
                    points_off(
                        sample["domains"][f"{path}/payload"]["got"], LIMITS[int(path[-1])] * cpus
                    )
                )
                for path in sample["limits"]
            )
            marks.append(
                at_most(
                    "cpu.max, of 4 containers in the tree over the run, off the quota by",
                    round(whole, 3),
                    1.0,
                    "%",
                )
            )
            marks += [
                at_most(
                    f"cpu.max, over the run, {limit_title(step)}, off the quota by",
                    round(abs(points_off(s["mean"], s["quota"])), 3),
                    1.0,
                    "%",
                )
                for step, s in alone.items()
            ]
        return marks

    def table(samples: Samples) -> Table:
        rows = []
        for scheduler, steps in samples.items():
            sample = steps["tree"]
            for name, s in sample["slices"].items():
                rows.append(
                    [
                        name,
                        scheduler,
                        100 * s["asked"],
                        100 * s["got"],
                        points_off(s["got"], s["asked"]),
                        None,
                        None,
                    ]
                )
            for path, d in sample["domains"].items():
                if not is_sleeper(path):
                    worst = sample["limits"].get(path.rpartition("/")[0], {})
                    rows.append(
                        [
                            path,
                            scheduler,
                            100 * d["asked"],
                            100 * d["got"],
                            points_off(d["got"], d["asked"]),
                            worst.get("aligned"),
                            worst.get("any"),
                        ]
                    )
            for step, s in steps.items():
                if step != "tree":
                    rows.append(
                        [
                            limit_title(step),
                            scheduler,
                            100 * s["quota"],
                            100 * s["mean"],
                            points_off(s["mean"], s["quota"]),
                            s["aligned"],
                            s["any"],
                        ]
                    )
        return [
            "domain",
            "scheduler",
            "asked % of a CPU",
            "got %",
            "points off",
            "worst second, % off the quota",
            "the same, wherever it begins",
        ], rows

    def draw(samples: Samples) -> Figure:
        from . import plot

        figure, (axis,) = plot.grid(1, 1, 7.5, 4.2)
        names = [
            path for path in next(iter(samples.values()))["tree"]["domains"] if not is_sleeper(path)
        ]
        width = 0.8 / len(samples)
        for number, (scheduler, steps) in enumerate(samples.items()):
            found = steps["tree"]["domains"]
            axis.bar(
                [i + (number + 0.5) * width - 0.4 for i in range(len(names))],
                [100 * found[n]["got"] for n in names],
                width * 0.9,
                color=plot.colour(scheduler),
                label=plot.title(scheduler).split(",")[0],
            )
            axis.plot(
                range(len(names)),
                [100 * found[n]["asked"] for n in names],
                "_",
                color="black",
                markersize=12,
                label="asked for",
            )
        axis.set_xticks(
            range(len(names)),
            [n.replace(".slice", "").removesuffix("/payload") for n in names],
            rotation=90,
            fontsize=7,
        )
        axis.set_ylabel("% of a CPU")
        figure.suptitle("A tree as systemd makes it: weights, and limits (l0 to l3)", fontsize=10)
        plot.one_legend(figure, [axis], 3)
        return figure

    return Experiment(
        title=f"Slices, services and containers on {cpus_title(cpus, machine)}",
        figure="None of a paper: a systemd tree against arithmetic",
        about=f"User, system and machine slices with 3 sessions, {SERVICES} services and "
        f"{len(FREE_WEIGHTS) + len(LIMITS)} containers for "
        f"{SECONDS} s, by weight and with limits; and a limit of {100 * LIMIT:g} % of the "
        "machine at depths 1 to 16 beside infinite loops.",
        steps=make,
        read=read,
        judge=judge,
        table=table,
        draw=draw,
        machine=machine,
        schedulers=("eevdf", "aplomb"),
        settings={
            "seconds": SECONDS,
            "settle_s": SETTLE_S,
            "slices": SLICES,
            "busy_services": list(BUSY_WEIGHTS),
            "containers": list(FREE_WEIGHTS),
            "limits": list(LIMITS),
            "limit_period_ms": round(1000 * PERIOD_S),
            "judged_from_percent_of_the_machine": 100 * JUDGED_FROM,
        },
    )


def is_sleeper(path: str) -> bool:
    number = path.removeprefix("system.slice/s").removesuffix(".service")
    return number.isdigit() and int(number) >= len(BUSY_WEIGHTS)
