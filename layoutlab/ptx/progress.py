"""progress: one line on the terminal that says how many CTAs a long run has done."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Bar:
    """Called with the CTAs done so far; silent until `patience` seconds have passed, and off a terminal.

    >>> bar = Bar(64, sys.stdout, patience=0.0)
    >>> bar.text(16)
    'replay [#####---------------] 16 of 64 CTAs'
    """

    WIDTH = 20

    def __init__(self, total: int, stream: TextIO = sys.stderr, patience: float = 2.0) -> None:
        self.total, self.stream, self.patience = total, stream, patience
        self.started = time.monotonic()
        self.shown = False

    def text(self, done: int) -> str:
        filled = self.WIDTH * done // max(self.total, 1)
        return f"replay [{'#' * filled}{'-' * (self.WIDTH - filled)}] {done} of {self.total} CTAs"

    def __call__(self, done: int) -> None:
        if time.monotonic() - self.started < self.patience or not self.stream.isatty():
            return
        self.shown = True
        end = "\n" if done >= self.total else ""
        self.stream.write(f"\r{self.text(done)}{end}")
        self.stream.flush()
