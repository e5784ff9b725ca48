"""Eclipse's set-up (section 7): a program in a reservation domain of its own, beside n `onoff`
processes in one each, all below one node whose policy is MTR-LS, WRR or SFQ. Stock Linux has the
same cgroups with the same weights, and no policies.

A reservation below a domain counts against that one's, so the node has all that may be reserved, if
a program in it has some.

Eclipse also had the file server in a domain of its own (20 %). Here the file system's work is done
by the process that asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .domains import Domain
from .schedulers import Scheduler

NODE = "eclipse"
NODE_RESERVED = "95%"  # the most there is
ONOFF = ("/job/onoff", "11000", "5000", "1")
POLICIES = {"mtr": "MTR-LS", "wrr": "WRR", "sfq": "SFQ"}
COUNTS, QUICK_COUNTS = (0, 1, 2, 4, 8, 12, 16, 20), (0, 20)
STYLES = {"mtr": "o-", "wrr": "s--", "sfq": "^:", "plain": "o-", "mtr-reserved": "x-"}


def policies(scheduler: Scheduler) -> list[str]:
    """The first word of this scheduler's steps: policies are aplomb's."""
    return list(POLICIES) if scheduler.name == "aplomb" else ["plain"]


def beside_onoffs(
    program: Sequence[str],
    count: int,
    policy: str,
    reserved_percent: int = 0,
    weight: int = 100,
    late: bool = False,
) -> list[Domain]:
    """The program in NODE/subject, to its end, and so many onoff, each in a domain of its own.
    late: after the others."""
    keys = (
        "wait=1",
        *(["late=1"] if late else []),
        *([f"cpu={reserved_percent}%"] if reserved_percent else []),
    )
    node = Domain(
        NODE,
        keys=()
        if policy == "plain"
        else (f"policy={policy}", *([f"cpu={NODE_RESERVED}"] if reserved_percent else [])),
    )
    return [
        node,
        Domain(f"{NODE}/subject", tuple(program), weight, keys=keys),
        *(Domain(f"{NODE}/o{number}", ONOFF) for number in range(count)),
    ]


def title(scheduler: str, policy: str) -> str:
    from . import plot

    if policy == "plain":
        return plot.title(scheduler).split(",")[0]
    name, _, more = policy.partition("-")
    return f"{scheduler}, {POLICIES[name]}{' with a reservation' if more else ''}"


def lines(samples: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, list[tuple[int, Any]]]]:
    """Scheduler, policy, and (number, sample) in order, from steps that are named POLICY-NUMBER."""
    found = []
    for scheduler, steps in samples.items():
        for policy in dict.fromkeys(name.rpartition("-")[0] for name in steps):
            points = [
                (int(name.rpartition("-")[2]), s)
                for name, s in steps.items()
                if name.rpartition("-")[0] == policy
            ]
            found.append((scheduler, policy, sorted(points, key=lambda point: point[0])))
    return found


def colour(scheduler: str, policy: str) -> str:
    from . import plot

    return {"wrr": "#8c564b", "sfq": "#17becf", "mtr-reserved": "#2ca02c"}.get(
        policy, plot.colour(scheduler)
    )
