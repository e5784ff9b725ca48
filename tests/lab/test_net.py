"""Network: the order of packets by domain."""

from __future__ import annotations

from . import harness


class Net(harness.JobTest):
    """domains have their shares of a link; an interface gets back what it had"""

    job = "net"
    seconds = 240


class NetMiddle(harness.JobTest):
    """the same on 6.18"""

    full = True
    job = "net"
    seconds = 240
    kernel = "6.18"
    append = harness.STALLS_LATER


class NetChanges(harness.JobTest):
    """an interface and its domains change under load; no packet is left behind"""

    job = "net_changes"
    seconds = 180
