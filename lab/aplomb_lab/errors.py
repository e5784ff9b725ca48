"""The lab's one kind of error: a single line that names the file, package or command at fault."""


class LabError(Exception):
    """Something that the user can read and act on; the command line prints it without a traceback."""
