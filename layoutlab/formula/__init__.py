"""Formulas: tables of digits as text, as LaTeX and as sympy expressions, for people to read.

`layouts` gives sympy's expression of a layout, `text` what a table says as one line of arithmetic, `reading` takes such
a line apart again, to compute it, to typeset it or to hand it to another prover.

>>> from layoutlab.digits import strided
>>> print(sum_of(strided("byte", m=[(128, 128)], k=[(64, 2), (2, 16384)]), "byte"))
128*m + 2*(k % 64) + 16384*(k // 64)
"""

from layoutlab.formula.latex import latex
from layoutlab.formula.layouts import formula, of_layout, spoken
from layoutlab.formula.reading import Definition, Definitions, read_definitions
from layoutlab.formula.text import Run, bits_text, parts_text, polynomial, runs, sum_of, swizzle_text

__all__ = [
    "Definition",
    "Definitions",
    "Run",
    "bits_text",
    "formula",
    "latex",
    "of_layout",
    "parts_text",
    "polynomial",
    "read_definitions",
    "runs",
    "spoken",
    "sum_of",
    "swizzle_text",
]
