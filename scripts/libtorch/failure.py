# What goes wrong in a way that the reader can mend: one sentence, with the command that mends it where there is one.


class Failure(Exception):
    """A problem, worded so that it reads well after "tokengrad set-up: "."""
