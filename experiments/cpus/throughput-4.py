"""Ordinary programs on 4 CPUs. See framework/programs.py."""

from experiments.framework.programs import programs

EXPERIMENT = programs(4)
