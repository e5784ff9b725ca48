"""Tests of the whole: what the units and the experiments do not see."""
