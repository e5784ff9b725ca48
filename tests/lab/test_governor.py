"""Load, admission, revocation, reactivation; nobody starves (issue 2, sections 3 and 6)."""

from . import harness


class Governor(harness.JobTest):
    job = "governor"


class Starvation(harness.JobTest):
    job = "starvation"
