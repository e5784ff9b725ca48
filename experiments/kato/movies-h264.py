"""Kato Figs. 1 and 8 to 12: 4, 5 and 6 H.264 movies, whose frames vary much, on 4 CPUs.

25 ms in 41 ms are reserved for each, 61 %: five of them fit on 4 CPUs only if one is split, six if
several are.
"""

from experiments.framework.simulated_movies import Limit, simulated_movies

EXPERIMENT = simulated_movies(
    "h264",
    "H.264",
    (4, 5, 6),
    25,
    41,
    24,
    24,
    45,
    [Limit(5, 23), Limit(6, 20)],
    figure="Kato, Figs. 1 and 8 to 12",
)
