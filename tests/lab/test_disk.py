"""Disks: dirty limits by class, the order of requests, device time."""

from __future__ import annotations

from . import harness


class Disk(harness.JobTest):
    """a best-effort writer is parked at its limit, an interactive one not; the knob goes back"""

    job = "disk"
    seconds = 140
    disks = ("320M,iops=400,rate=40M",)


class DiskOrder(harness.JobTest):
    """domains have their shares of a disk, interactive programs go first, and lose nothing"""

    job = "disk_order"
    seconds = 180
    disks = ("160M,iops=400,rate=40M,latency=10ms",)


class DiskAccount(harness.JobTest):
    """device time is charged to domain and class, and adds up to the time that passes"""

    job = "disk_account"
    seconds = 180
    disks = ("160M,iops=400,rate=40M,latency=10ms",)


class DiskFaults(harness.JobTest):
    """file systems that are frozen, full, read-only, a removed disk: beside parked tasks"""

    job = "disk_faults"
    seconds = 200
    disks = (
        "200M,iops=400,rate=40M,latency=10ms",
        "64M,iops=400,rate=40M,latency=10ms",
    )
    full = True


class DiskCrowd(harness.JobTest):
    """a thousand parked callers, a hostile user, a daemon that is killed meanwhile"""

    job = "disk_crowd"
    seconds = 200
    disks = (
        "64M,iops=400,rate=40M,latency=10ms",
        "160M,iops=2000,rate=200M,latency=4ms",
    )
    full = True
