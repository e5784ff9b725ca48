"""As Kato's Fig. 22, on 16 CPUs: random task sets whose tasks need 50 to 100 % of a CPU each."""

from experiments.framework.schedulability import schedulability

EXPERIMENT = schedulability(
    50, 100, figure="of no paper; Kato, Fig. 22, on more CPUs", cpus=16, sets=100
)
