"""What all programs of one user may have together."""

from . import harness


class Owners(harness.JobTest):
    """one account for each user: CPU time, places in the table"""

    job = "owners"
    seconds = 150
