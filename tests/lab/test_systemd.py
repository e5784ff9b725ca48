"""Domains where systemd is process 1: slices and scopes through its D-Bus interface, the daemon as its unit says.

Only with APLOMB_LAB_SYSTEMD=1: a boot of systemd and two starts, six minutes in the emulator.
"""

import os

from . import harness

if os.environ.get("APLOMB_LAB_SYSTEMD"):

    class UnderSystemd(harness.JobTest):
        job = "systemd"
        append = (
            "lab.systemd systemd.unit=basic.target systemd.firstboot=off systemd.show_status=off"
        )
        inputs = [(harness.REPOSITORY / "dist/aplomb.service", "aplomb.service")]
