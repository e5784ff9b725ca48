"""What every experiment shares: declaring, running in the lab, judging, drawing, reporting.

An experiment file imports what it needs from here, and defines EXPERIMENT.
"""

from .experiment import Experiment, Samples, Step, Study, Table
from .frames import Movie
from .marks import Mark, at_least, at_most, between
from .schedulers import Reservation, Scheduler, all_schedulers

__all__ = [
    "Experiment",
    "Mark",
    "Movie",
    "Reservation",
    "Samples",
    "Scheduler",
    "Step",
    "Study",
    "Table",
    "all_schedulers",
    "at_least",
    "at_most",
    "between",
]
