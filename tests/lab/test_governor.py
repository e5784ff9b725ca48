"""Admission by measured load, and the CPU time that best-effort tasks keep."""

from . import harness


class Governor(harness.JobTest):
    """load, admission, revocation, reactivation"""

    job = "governor"
    seconds = 120


class Starvation(harness.JobTest):
    """no best-effort task starves, whatever its weight"""

    job = "starvation"
    seconds = 90


class LongStarvation(harness.JobTest):
    """no best-effort task starves, for longer"""

    job = "starvation"
    seconds = 150
    full = True
    env = {"LONG": "1"}
