"""Kernels that aplomb supports, and one that it must refuse."""

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
    seconds = 140
    kernel = "6.16"
    env = {"EXPECT": "works"}
    append = harness.STALLS_LATER


class Middle(harness.JobTest):
    """6.18, which reports cpu.max but not cpu.idle"""

    job = "kernels"
    seconds = 180
    kernel = "6.18"
    env = {"EXPECT": "works", "LIMITS": "told"}
    append = harness.STALLS_LATER


class OldestInterface(harness.JobTest):
    """6.16: its numbers and functions; two CPUs in virtual time"""

    full = True
    job = "interface"
    seconds = 60
    machine = "timing-smp"
    kernel = "6.16"
    append = harness.STALLS_LATER
    env = {"EXPECT": "old", "LACKS": "cpu.max,cpu.idle,slice,work"}


class MiddleInterface(harness.JobTest):
    """6.18: its numbers and functions"""

    full = True
    job = "interface"
    seconds = 60
    machine = "timing-smp"
    kernel = "6.18"
    append = harness.STALLS_LATER
    env = {"EXPECT": "old", "LACKS": "cpu.idle,slice,work"}
