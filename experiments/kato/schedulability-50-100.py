"""Kato Fig. 22: random task sets whose tasks need 50 to 100 % of a CPU each."""

from experiments.framework.schedulability import schedulability

EXPERIMENT = schedulability(50, 100, figure="Kato, Fig. 22")
