"""What every experiment shares: declaring, running in the lab, judging, drawing, reporting.

An experiment file imports what it needs from here, and defines EXPERIMENT.
"""
from .experiment import Experiment, Step, Study
from .frames import Movie
from .marks import Mark, at_least, at_most, between
from .schedulers import Reservation, Scheduler, all_schedulers

__all__ = ["Experiment", "Mark", "Movie", "Reservation", "Scheduler", "Step", "Study", "all_schedulers", "at_least", "at_most",
           "between"]
