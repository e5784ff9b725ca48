"""Reservations on one CPU, in virtual time."""

from . import harness


class Reserved(harness.JobTest):
    """budgets and deadlines; no best-effort task starves, whatever its weight"""

    job = "reserved starvation"
    seconds = 215


class LongStarvation(harness.JobTest):
    """no best-effort task starves, for longer"""

    job = "starvation"
    seconds = 200
    full = True
    env = {"LONG": "1"}
