"""Which tasks become interactive, and by whose right (issue 2, section 3)."""

from . import harness


class Matching(harness.JobTest):
    job = "matching"
