"""A tree as systemd makes it, on two CPUs in virtual time. See framework/containers.py."""

from experiments.framework.containers import containers

EXPERIMENT = containers(2, 2.0, "timing-smp")
