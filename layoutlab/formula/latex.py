r"""LaTeX: a printed formula, typeset.

>>> print(latex("2*(k % 64) + 16384*n_m*(k // 64)"))
2 (k \bmod 64) + 16384 n_{m} \lfloor k / 64 \rfloor
"""

from __future__ import annotations

import ast

from layoutlab.errors import LayoutError
from layoutlab.formula.reading import read

_RANK = {ast.BitXor: 1, ast.BitAnd: 2, ast.LShift: 3, ast.RShift: 3, ast.Add: 4, ast.Sub: 4, ast.Mult: 5, ast.Mod: 5}
_SIGN = {
    ast.Add: " + ",
    ast.Sub: " - ",
    ast.Mult: " ",
    ast.Mod: r" \bmod ",
    ast.BitXor: r" \oplus ",
    ast.BitAnd: r" \mathbin{\&} ",
    ast.RShift: r" \gg ",
    ast.LShift: r" \ll ",
}


def latex(text: str) -> str:
    r"""An expression as LaTeX mathematics; a floor takes the place of `//`, a circled plus that of `^`.

    >>> print(latex("x ^ (x >> 3 & 112)"))
    x \oplus ((x \gg 3) \mathbin{\&} 112)
    """
    return _typeset(read(text))[0]


def _typeset(node: ast.expr) -> tuple[str, int]:
    """The text, and how tightly it binds."""
    if isinstance(node, ast.Constant):
        return str(node.value), 9
    if isinstance(node, ast.Name):
        return _name(node.id), 9
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return f"{_name(node.func.id)}({', '.join(_typeset(argument)[0] for argument in node.args)})", 9
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return "-" + _inside(node.operand, 5), 4
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        return rf"\lfloor {_inside(node.left, 5)} / {_inside(node.right, 6)} \rfloor", 9
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGN:
        rank = _RANK[type(node.op)]
        loose = rank if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)) else rank + 1
        return f"{_inside(node.left, loose)}{_SIGN[type(node.op)]}{_inside(node.right, rank + 1)}", rank
    raise LayoutError(f"{ast.unparse(node)} is no part of a formula")


def _inside(node: ast.expr, rank: int) -> str:
    """A part, in brackets where it binds less tightly, and a remainder, a mask or a shift always."""
    text, own = _typeset(node)
    loose = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.BitAnd, ast.RShift, ast.LShift))
    return f"({text})" if own < rank or loose else text


def _name(name: str) -> str:
    head, _, tail = name.partition("_")
    shown = head if len(head) == 1 else rf"\mathrm{{{head}}}"
    tail = tail.replace("_", r"\_")  # one subscript at most
    below = tail if len(tail) == 1 else rf"\mathrm{{{tail}}}"
    return f"{shown}_{{{below}}}" if tail else shown
