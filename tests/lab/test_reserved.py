"""Budgets and deadlines on one CPU, in exact time (issue 2, section 3)."""

from . import harness


class Reserved(harness.JobTest):
    job = "reserved"
