"""QLinux Figs. 5(a) and (b) on two CPUs. See framework/shares.py."""

from experiments.framework.shares import shares

EXPERIMENT = shares(2, 2.0, "smp", "QLinux, Figs. 5(a) and (b), on two CPUs")
