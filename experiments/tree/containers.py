"""A tree as systemd makes it, on one CPU. See framework/containers.py."""

from experiments.framework.containers import containers

EXPERIMENT = containers(1, 0.5, "timing")
