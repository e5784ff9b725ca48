"""Kato Figs. 15 to 18: 12, 13 and 14 uncompressed movies, whose frames are all alike, on 4 CPUs.

9 ms in 33 ms are reserved for each, 27 %, as in the paper. The figure has no mark.
"""

from experiments.framework.simulated_movies import simulated_movies

EXPERIMENT = simulated_movies(
    "raw",
    "uncompressed",
    (12, 13, 14),
    9,
    33,
    30000 / 1001,
    8.5,
    9,
    [],
    figure="Kato, Figs. 15 to 18",
)
