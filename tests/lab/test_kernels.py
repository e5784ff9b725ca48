"""The kernels that aplomb supports, and one that it must refuse (issue 2, section 2)."""

from . import harness


class NoSchedExt(harness.JobTest):
    job = "kernels"
    kernel = "6.12"
    env = {"EXPECT": "refused"}


class Oldest(harness.JobTest):
    job = "kernels"
    kernel = "6.16"
    env = {"EXPECT": "works"}


class Middle(harness.JobTest):
    job = "kernels"
    kernel = "6.18"
    env = {"EXPECT": "works", "LIMITS": "told"}
