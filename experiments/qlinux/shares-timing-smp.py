"""QLinux Figs. 5(a) and (b) on two CPUs in virtual time. See framework/shares.py."""

from experiments.framework.shares import shares

EXPERIMENT = shares(2, 2.0, "timing-smp", "QLinux, Figs. 5(a) and (b), on two CPUs")
