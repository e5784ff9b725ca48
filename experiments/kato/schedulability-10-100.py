"""Kato Fig. 21: random task sets whose tasks need 10 to 100 % of a CPU each."""

from experiments.framework.schedulability import schedulability

EXPERIMENT = schedulability(10, 100, figure="Kato, Fig. 21")
