"""The one error that people see as a line of text."""


class ExperimentError(Exception):
    """Something that stops an experiment: the message says what is wrong and what to do about
    it."""
