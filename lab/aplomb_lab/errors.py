"""The lab's one kind of error: a single line that names the file, package or command at fault."""


class LabError(Exception):
    """A message that the user can act on; the command line prints it without a traceback."""
