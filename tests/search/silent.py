"""Expressions on which another library returns, without a word, a layout that breaks the operation's own law.

    python tests/search/silent.py --library tensor_layouts --operation composition --seconds 60

hypothesis makes the operands; what breaks the law is made smaller step by step until no step keeps it broken for the
same cause; one minimal expression is printed for each cause. `--ask dsl "composition(L(8,2), L(4,1))"` prints what a
library answers.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import beside  # noqa: F401  (puts strangers and operands within reach)
from causes import cause
from hypothesis import HealthCheck, Phase, given, seed, settings
from operands_wide import calls
from plain import L, S, leaves
from promises import LAWS, broken
from rules import rule
from strangers import LACKS, ORACLES, ask

Args = tuple[Any, ...]
DEATHS = 4
"""How often operands of one kind may kill a library's process before it is left alone with them."""


class Found(NamedTuple):
    """A wrong answer: the call, the printed answer, what is wrong, why, and the rule that the operands break."""

    package: str
    operation: str
    args: Args
    answer: str
    wrong: str
    cause: str
    rule: str | None

    @property
    def expression(self) -> str:
        return f"{self.operation}({', '.join(map(written, self.args))})"


def written(x: Any) -> str:
    """An argument as the libraries take it.

    >>> written((L((2, 3), (3, 1)), 4))
    '(L((2,3), (3,1)), 4)'
    """
    if isinstance(x, L):
        return f"L({_numbers(x.shape)}, {_numbers(x.stride)})"
    if isinstance(x, S):
        return f"S({x.bits}, {x.base}, {x.shift}, {x.offset}, {written(x.outer)})"
    if isinstance(x, tuple):
        return f"({', '.join(map(written, x))}{',' if len(x) == 1 else ''})"
    return repr(x)


def _numbers(x: Any) -> str:
    return f"({','.join(map(_numbers, x))}{',' if len(x) == 1 else ''})" if isinstance(x, tuple) else str(x)


def arguments(expression: str) -> tuple[str, Args]:
    """The operation and the arguments of an expression, as plain layouts."""
    operation, _, inside = expression.partition("(")
    return operation, eval(f"(lambda *args: args)({inside}", {"L": L, "S": S})


def judged(library: str, operation: str, args: Args) -> Found | None:
    """What is wrong with a library's answer; None where it is right, or refused, or the arguments unknown to it."""
    if library == "pycute" and any(isinstance(a, S) for a in args):
        return None
    call = Found(library, operation, args, "", "", "", None)
    answer = ask(library, call.expression)
    if answer.refused is not None or _cut(answer.text):
        return None
    wrong = broken(library, operation, args, answer.text)
    if wrong is None:
        return None
    asked = rule(library, operation, args)
    return call._replace(answer=answer.text, wrong=wrong, rule=asked, cause=cause(library, operation, args, asked))


def _cut(text: str) -> bool:
    """Whether the DSL printed too little of a swizzle to judge it: it stops after eight characters, `S<1,0,-1`.

    Where these show the base 2^32 - 1, `S<1,4294`, nothing more is needed.
    """
    return text.startswith("S<") and ">" not in text and ",4294" not in text


# -- smaller ----------------------------------------------------------------------------------------------------------


def smaller(args: Args) -> Iterator[Args]:
    """Each call that is one step smaller: a mode less, of one argument or of all; a nesting less; a number nearer 0."""
    ranks = {len(m) for a in args if (m := _modes(a)) is not None}
    if len(ranks) == 1 and (rank := ranks.pop()) > 1:
        for mode in range(rank):
            yield tuple(a if _modes(a) is None else _without(a, mode) for a in args)
    for i, a in enumerate(args):
        for less in _less(a):
            yield (*args[:i], less, *args[i + 1 :])


def _modes(a: Any) -> tuple[Any, ...] | None:
    shape = a.outer.shape if isinstance(a, S) else a.shape if isinstance(a, L) else a
    return shape if isinstance(shape, tuple) else None


def _without(a: Any, mode: int) -> Any:
    if isinstance(a, S):
        return S(a.bits, a.base, a.shift, a.offset, _without(a.outer, mode))
    if isinstance(a, L):
        return L(_dropped(a.shape, mode), _dropped(a.stride, mode))
    left = _dropped(a, mode)
    if sorted(leaves(a)) == list(range(len(a))):  # an order of modes
        left = tuple(sorted(left).index(x) for x in left)
    return left


def _dropped(x: tuple[Any, ...], mode: int) -> tuple[Any, ...]:
    return x[:mode] + x[mode + 1 :]


def _less(a: Any) -> Iterator[Any]:
    if isinstance(a, S):
        yield from (S(a.bits, a.base, a.shift, a.offset, outer) for outer in _less(a.outer))
        numbers = (a.bits, a.base, a.shift, a.offset)
        for less in _less_numbers(numbers, 0):
            if less[0] <= abs(less[2]):
                yield S(*less, a.outer)
    elif isinstance(a, L):
        yield from (L(s, d) for s, d in _regrouped(a.shape, a.stride))
        yield from (L(shape, a.stride) for shape in _less_numbers(a.shape, 1))
        yield from (L(a.shape, stride) for stride in _less_numbers(a.stride, 0))
        yield from (L(a.shape, stride) for stride in _less_together(a.stride))
    elif isinstance(a, tuple) and any(isinstance(part, L) for part in a):
        yield from ((*a[:i], less, *a[i + 1 :]) for i, part in enumerate(a) for less in _less(part))
    elif a is not None:
        yield from _less_numbers(a, 0 if isinstance(a, tuple) and 0 in leaves(a) else 1)
        yield from _less_together(a, 1)


def _less_together(x: Any, least: int = 0) -> Iterator[Any]:
    """Numbers that are equal made smaller as one."""

    def swapped(x: Any, old: int, new: int) -> Any:
        return tuple(swapped(part, old, new) for part in x) if isinstance(x, tuple) else new if x == old else x

    for old, times in Counter(leaves(x)).items():
        if times > 1:
            yield from (swapped(x, old, new) for new in _less_numbers(old, least))


def _regrouped(shape: Any, stride: Any) -> Iterator[tuple[Any, Any]]:
    if not isinstance(shape, tuple):
        return
    if len(shape) == 1:
        yield shape[0], stride[0]
    for i in range(len(shape)):
        if len(shape) > 1:
            yield _dropped(shape, i), _dropped(stride, i)
        if isinstance(shape[i], tuple):
            yield shape[:i] + shape[i] + shape[i + 1 :], stride[:i] + stride[i] + stride[i + 1 :]
        for s, d in _regrouped(shape[i], stride[i]):
            yield (*shape[:i], s, *shape[i + 1 :]), (*stride[:i], d, *stride[i + 1 :])


def _less_numbers(x: Any, least: int) -> Iterator[Any]:
    if isinstance(x, tuple):
        for i, part in enumerate(x):
            yield from ((*x[:i], less, *x[i + 1 :]) for less in _less_numbers(part, least))
    elif x > least:
        yield from range(least, x)
    elif x < least:
        yield from [-n for n in range(0, -x)] if least == 0 else []


def minimal(found: Found) -> Found:
    """The call made smaller while it stays wrong for its cause."""
    while True:
        for args in smaller(found.args):
            less = judged(found.package, found.operation, args)
            if less is not None and less.cause == found.cause:
                found = less
                break
        else:
            return found


# -- search -----------------------------------------------------------------------------------------------------------


def died(library: str, operation: str, args: Args) -> bool:
    """Whether a call kills the library's process; only the DSL has one of its own."""
    if library != "dsl":
        return False
    refused = ask(library, Found(library, operation, args, "", "", "", None).expression).refused
    return refused is not None and refused.startswith("the process died")


def search(library: str, operation: str, seconds: float, first: Sequence[Args] = ()) -> tuple[int, dict[str, Found]]:
    """How many calls were judged, and the smallest wrong one of each cause; `first` are calls to begin with."""
    end, found, tried, deaths = time.monotonic() + seconds, dict[str, Found](), 0, Counter[str]()

    def look(args: Args) -> None:
        nonlocal tried
        why = cause(library, operation, args, rule(library, operation, args))
        if time.monotonic() > end or why in found or deaths[why] == DEATHS:
            return
        tried += 1
        wrong = judged(library, operation, args)
        if wrong is not None:
            found[why] = minimal(wrong)
        deaths[why] += died(library, operation, args)

    for args in first:
        look(args)
    quiet = {"deadline": None, "database": None, "phases": [Phase.generate], "max_examples": 200}
    for n in count():
        if time.monotonic() > end:
            return tried, found
        seed(n)(settings(**quiet, suppress_health_check=list(HealthCheck))(given(calls(operation))(look)))()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", dest="libraries", choices=ORACLES, action="append")
    parser.add_argument("--operation", choices=sorted(LAWS), action="append")
    parser.add_argument("--seconds", type=float, default=10, help="for each library and operation")
    parser.add_argument("--ask", nargs=2, metavar=("LIBRARY", "EXPRESSION"), help="print one answer")
    options = parser.parse_args()
    if options.ask:
        answer = ask(*options.ask)
        print(answer.text if answer.refused is None else f"refuses: {answer.refused}")
        return
    for library in options.libraries or ORACLES:
        for operation in options.operation or sorted({*LAWS} - LACKS[library]):
            tried, found = search(library, operation, options.seconds)
            print(f"{library} {operation}: {tried} calls, {len(found)} causes of wrong answers", flush=True)
            for wrong in found.values():
                print(f"  {wrong.expression}\n    = {wrong.answer}: {wrong.wrong}\n    {wrong.cause}")
                print(f"    rule: {wrong.rule}", flush=True)


if __name__ == "__main__":
    main()
