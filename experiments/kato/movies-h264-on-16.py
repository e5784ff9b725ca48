"""As Kato's Figs. 8 to 12, on 16 CPUs: 16, 20 and 24 H.264 movies, as many for each CPU."""

from experiments.framework.simulated_movies import Limit, simulated_movies

EXPERIMENT = simulated_movies(
    "h264",
    "H.264",
    (16, 20, 24),
    25,
    41,
    24,
    24,
    45,
    [Limit(20, 23), Limit(24, 20)],
    figure="of no paper; Kato, Figs. 8 to 12, on more CPUs",
    cpus=16,
)
