"""QLinux Figs. 5(a) and (b): shares of one CPU by weight. See framework/shares.py."""

from experiments.framework.shares import shares

EXPERIMENT = shares(1, 0.5, "timing", "QLinux, Figs. 5(a) and (b)")
