# Progress of one long transfer: a line that rewrites itself on a terminal, plain lines elsewhere.
import sys
import time

PLAIN_EVERY = 5.0  # seconds between plain lines
TERMINAL_EVERY = 0.1  # seconds between rewrites


def say(text):
    print(f"  {text}", file=sys.stderr, flush=True)


def megabytes(count):
    return f"{count / 1e6:.1f}" if count < 10e6 else f"{count / 1e6:.0f}"


class Progress:
    """Counts bytes towards `total` (None when unknown), beginning at `done`, and prints them with speed and time left."""

    def __init__(self, label, total, done=0):
        self.label, self.total, self.done = label, total, done
        self.first, self.began, self.shown = done, time.monotonic(), 0.0
        self.terminal = sys.stderr.isatty()
        self.width = 0

    def add(self, count):
        self.done += count
        now = time.monotonic()
        if now - max(self.shown, self.began) >= (TERMINAL_EVERY if self.terminal else PLAIN_EVERY):
            self.shown = now
            self.show()

    def line(self):
        elapsed = time.monotonic() - self.began
        speed = (self.done - self.first) / elapsed if elapsed > 0 else 0.0
        of = f"/{megabytes(self.total)}" if self.total else ""
        text = f"{self.label}  {megabytes(self.done)}{of} MB  {megabytes(speed)} MB/s"
        if self.total and speed > 0:
            left = round((self.total - self.done) / speed)
            text += f"  {left // 60}:{left % 60:02d} left"
        return text

    def show(self):
        text = self.line()
        if self.terminal:
            print(f"\r  {text.ljust(self.width)}", end="", file=sys.stderr, flush=True)
            self.width = len(text)
        else:
            say(text)

    def close(self):
        """Ends the line, whether or not the transfer came to its end."""
        self.show()
        if self.terminal:
            print(file=sys.stderr, flush=True)
