"""Ordinary programs on 2 CPUs. See framework/programs.py."""

from experiments.framework.programs import programs

EXPERIMENT = programs(2)
