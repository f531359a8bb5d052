"""Derive: the writer that would be right, from the reader and the owner; the reader, from what is written; the buffer.

>>> from layoutlab.catalogue import sP
>>> derive(sP()).verdict
'derived'
"""

from layoutlab.derive.core import Derived, derive
from layoutlab.derive.pieces import Piece

__all__ = ["Derived", "Piece", "derive"]
