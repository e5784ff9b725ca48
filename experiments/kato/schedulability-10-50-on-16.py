"""As Kato's Fig. 23, on 16 CPUs: random task sets whose tasks need 10 to 50 % of a CPU each."""

from experiments.framework.schedulability import schedulability

EXPERIMENT = schedulability(
    10, 50, figure="of no paper; Kato, Fig. 23, on more CPUs", cpus=16, sets=100
)
