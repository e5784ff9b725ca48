"""Kato Fig. 23: random task sets whose tasks need 10 to 50 % of a CPU each."""

from experiments.framework.schedulability import schedulability

EXPERIMENT = schedulability(10, 50, figure="Kato, Fig. 23")
