"""As Kato's Figs. 15 to 18, on 16 CPUs: 48, 52 and 56 uncompressed movies, as many for each CPU.

The figure has no mark.
"""

from experiments.framework.simulated_movies import simulated_movies

EXPERIMENT = simulated_movies(
    "raw",
    "uncompressed",
    (48, 52, 56),
    9,
    33,
    30000 / 1001,
    8.5,
    9,
    [],
    figure="of no paper; Kato, Figs. 15 to 18, on more CPUs",
    cpus=16,
)
