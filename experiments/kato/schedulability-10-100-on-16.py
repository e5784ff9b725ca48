"""As Kato's Fig. 21, on 16 CPUs: random task sets whose tasks need 10 to 100 % of a CPU each."""

from experiments.framework.schedulability import schedulability

EXPERIMENT = schedulability(
    10, 100, figure="of no paper; Kato, Fig. 21, on more CPUs", cpus=16, sets=100
)
