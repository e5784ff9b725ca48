"""Redline Fig. 5(a): a movie through a fork bomb of 50 tasks."""

from experiments.framework.bomb import fork_bomb

EXPERIMENT = fork_bomb(50, figure="Redline, Fig. 5(a)")
