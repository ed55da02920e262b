"""How a peer talks with its parent: one command a line, one JSON line back, after a greeting with its version."""
import json
import os
import platform
import sys


def serve(versions, obey):
    """Answers each command with what `obey` gives for its words."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not get among the answers

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    answer({"version": ", ".join([f"Python {platform.python_version()}", *versions])})
    for line in sys.stdin:
        try:
            answer(obey(*line.split()))
        except Exception as error:  # told to the parent, which leaves the row out
            answer({"error": f"{type(error).__name__}: {error}".splitlines()[0]})
