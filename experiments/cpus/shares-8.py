"""Shares by weight on 8 CPUs in virtual time, also of each second. See framework/shares.py."""

from experiments.framework.shares import shares

EXPERIMENT = shares(8, 1.0, "timing-smp", "no paper", second_limit=3.0)
