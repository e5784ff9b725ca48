"""More interactive tasks, and more specs, than there is room for (issue 2, section 6)."""

from . import harness


class Limits(harness.JobTest):
    job = "limits"
    memory = 3072
