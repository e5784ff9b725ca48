"""The daemon killed in a bomb, starts that must be refused, what users may ask (issue 2, section 6)."""

from . import harness


class Faults(harness.JobTest):
    job = "faults"
