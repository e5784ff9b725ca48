"""Kato Figs. 26 and 27: movies beside memory bombs, under LRU paging, memory firewalling and PSAP.

framework/films.py has the movies, the variants and the experiment.
"""

from experiments.framework import films

EXPERIMENT = films.beside_bombs(films.RAW, "Kato, Figs. 26 and 27")
