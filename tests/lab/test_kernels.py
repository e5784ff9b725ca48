"""The kernels that aplomb supports, and one that it must refuse."""

from . import harness


class NoSchedExt(harness.JobTest):
    """6.12, which has no sched_ext, is refused"""

    job = "kernels"
    seconds = 20
    kernel = "6.12"
    env = {"EXPECT": "refused"}


class Oldest(harness.JobTest):
    """6.16, the oldest kernel that is supported"""

    job = "kernels"
    seconds = 60
    kernel = "6.16"
    env = {"EXPECT": "works"}


class Middle(harness.JobTest):
    """6.18, which reports cpu.max but not cpu.idle"""

    job = "kernels"
    seconds = 60
    kernel = "6.18"
    env = {"EXPECT": "works", "LIMITS": "told"}
