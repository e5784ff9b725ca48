"""Redline Fig. 5(b): a movie through a fork bomb of 2,000 tasks."""

from experiments.framework.bomb import fork_bomb

EXPERIMENT = fork_bomb(2000, figure="Redline, Fig. 5(b)")
