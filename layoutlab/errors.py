"""The errors that layoutlab raises: each is one sentence that says what, where, and what would be right."""

from __future__ import annotations


class LayoutError(ValueError):
    """An operation has no result of the required form, or an argument is not what the operation takes.

    >>> raise LayoutError("mode 1 of shape (4,2) does not divide 96")
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: mode 1 of shape (4,2) does not divide 96
    """
