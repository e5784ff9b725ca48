"""Disks: dirty limits by class."""

from __future__ import annotations

from . import harness


class Disk(harness.JobTest):
    """a best-effort writer is parked at its limit, an interactive one not; the knob goes back"""

    job = "disk"
    seconds = 140
    disks = ("320M,iops=400,rate=40M",)
