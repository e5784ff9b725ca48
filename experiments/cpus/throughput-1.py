"""Ordinary programs on one CPU. See framework/programs.py."""

from experiments.framework.programs import programs

EXPERIMENT = programs(1)
