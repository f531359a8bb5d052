"""Guards: goldens of functions, not of texts, and assertions in the words of the one who has to find the fault.

>>> import tempfile
>>> from pathlib import Path
>>> guard = Guard(Path(tempfile.mkdtemp()), update=True)
>>> guard.check("row", "(4,2):(1,4)")                     # records
>>> guard = Guard(guard.folder)
>>> guard.check("row", "8:1")                             # another notation of the same function
>>> guard.remarks
['row: the same function in another notation: was (4,2):(1,4), is 8:1']
>>> guard.check("row", "(4,2):(2,1)")
Traceback (most recent call last):
layoutlab.Refuted: row is not the function that its golden keeps (...row.txt)
  layout: other order: index 1 (1,0) was 1, is 2; 6 of 8 moved
...
"""

from __future__ import annotations

from layoutlab.guard.asserts import (
    assert_conflict_free,
    assert_covers,
    assert_injective,
    assert_same_function,
    assert_vector_width,
)
from layoutlab.guard.change import Change, change_of, changes
from layoutlab.guard.check import Guard
from layoutlab.guard.golden import Golden
from layoutlab.guard.subject import Subject, subject_of

__all__ = [
    "Change",
    "Golden",
    "Guard",
    "Subject",
    "assert_conflict_free",
    "assert_covers",
    "assert_injective",
    "assert_same_function",
    "assert_vector_width",
    "change_of",
    "changes",
    "subject_of",
]
