"""How a peer talks with its parent: one command a line, one JSON line back, after a greeting with its version."""
import json
import os
import platform
import sys

# From here on, what libraries print does not get among the answers.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(answer):
    print(json.dumps(answer), file=answers, flush=True)


def serve(versions, obey):
    """Answers each command with what `obey` gives for its words."""
    say({"version": ", ".join([f"Python {platform.python_version()}", *versions])})
    for line in sys.stdin:
        try:
            say(obey(*line.split()))
        except Exception as error:  # told to the parent, which leaves the row out
            say({"error": f"{type(error).__name__}: {error}".splitlines()[0]})
