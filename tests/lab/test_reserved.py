"""Budgets and deadlines on one CPU, in virtual time."""

from . import harness


class Reserved(harness.JobTest):
    """budgets, deadlines and the servers"""

    job = "reserved"
    seconds = 120
