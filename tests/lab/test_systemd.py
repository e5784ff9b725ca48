"""Domains where systemd is process 1: slices and scopes through its D-Bus interface, units whose
memory is protected, the daemon as a service. The job boots systemd once and starts the daemon
twice."""

from . import harness


class UnderSystemd(harness.JobTest):
    """domains and the daemon where systemd is process 1"""

    job = "systemd"
    seconds = 360
    full = True
    swaps = ("512M",)
    append = "lab.systemd systemd.unit=basic.target systemd.firstboot=off systemd.show_status=off"
    inputs = [(harness.REPOSITORY / "dist/aplomb.service", "aplomb.service")]
