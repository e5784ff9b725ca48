"""Domains where systemd is process 1: slices and scopes through its D-Bus interface, units whose
memory is protected, the daemon as a service. The job boots systemd once and starts the daemon
twice; a second job has the daemon end by itself."""

from . import harness


class UnderSystemd(harness.JobTest):
    """domains and the daemon where systemd is process 1"""

    job = "systemd"
    seconds = 360
    full = True
    swaps = ("512M",)
    append = "lab.systemd systemd.unit=basic.target systemd.firstboot=off systemd.show_status=off"
    inputs = [(harness.REPOSITORY / "dist/aplomb.service", "aplomb.service")]


class SystemdEnds(harness.JobTest):
    """the service when the daemon hangs or the kernel ends the scheduler"""

    job = "systemd_ends"
    seconds = 360
    may_end = "sysrq"
    full = True
    append = UnderSystemd.append
    inputs = UnderSystemd.inputs
