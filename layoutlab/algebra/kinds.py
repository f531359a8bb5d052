"""Kinds: the algebra's functions refuse an argument that is no layout, shape, coordinate or number, in a sentence.

>>> from layoutlab import algebra
>>> algebra.coalesce((4, 2))
Traceback (most recent call last):
layoutlab.errors.LayoutError: coalesce: layout is (4,2), which is no layout; Layout((4,2)), in text \
(4,2):(1,2), is one

What a parameter takes is read from its annotation, so it stands in one place. The functions of the modules themselves,
which layoutlab calls with arguments that it made, ask nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar, cast

from layoutlab.errors import LayoutError
from layoutlab.int_tuple import Basis, to_text
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.symbol import Sym

F = TypeVar("F", bound=Callable[..., Any])


def asking(function: F) -> F:
    """The function, refusing arguments of a kind that its annotations do not name.

    >>> from layoutlab.algebra.structure import rank
    >>> asking(rank)(Layout((4, 2))), asking(rank)((4, 2))
    (2, 2)
    >>> asking(rank)("4,2")
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: rank: x is '4,2', which is no layout or shape of numbers; Layout((4,2)), in \
text (4,2):(1,2), or (4,(2,8)), are some
    """
    parameters = [(p.name, _kinds(p)) for p in signature(function).parameters.values()]
    by_name = dict(parameters)

    @wraps(function)
    def asked(*args: Any, **named: Any) -> Any:
        for (name, kinds), value in zip(parameters, args, strict=False):
            _check(function.__name__, name, kinds, value)
        for name, value in named.items():
            _check(function.__name__, name, by_name.get(name, ()), value)
        return function(*args, **named)

    return cast(F, asked)


def _kinds(parameter: Parameter) -> tuple[str, ...]:
    kinds = tuple(kind for part in parameter.annotation.split(" | ") for kind in ALIASES.get(part, (part,)))
    unknown = [kind for kind in kinds if kind not in IS]
    if unknown:
        raise TypeError(f"{parameter} names {unknown[0]}, of which it is not known what it takes")
    return kinds


def _check(function: str, name: str, kinds: tuple[str, ...], value: Any) -> None:
    if not kinds or any(IS[kind](value) for kind in kinds):
        return
    said = [WORDS[kind] for kind in kinds if kind in WORDS]
    what, such = " or ".join(word for word, _ in said), ", or ".join(example for _, example in said)
    right = f"{such}, {'is one' if len(said) == 1 else 'are some'}"
    raise LayoutError(f"{function}: {name} is {_shown(value)}, which is no {what}; {right}")


def _shown(value: Any) -> str:
    return to_text(value) if _numbers(value) else repr(value)


def _number(x: Any) -> bool:
    return isinstance(x, (int, Sym)) and not isinstance(x, bool)


def _numbers(x: Any) -> bool:
    return all(map(_numbers, x)) if isinstance(x, tuple) else _number(x) or isinstance(x, Basis)


def _integers(x: Any) -> bool:
    """A number, of numpy too, or an array of such."""
    return _number(x) or (hasattr(x, "dtype") and x.dtype.kind in "iu")


def _index(x: Any) -> bool:
    return all(map(_index, x)) if isinstance(x, tuple) else _integers(x)


def _coordinate(x: Any) -> bool:
    return all(map(_coordinate, x)) if isinstance(x, tuple) else x is None or _integers(x)


def _tiler(x: Any) -> bool:
    return all(map(_tiler, x)) if isinstance(x, tuple) else x is None or _numbers(x) or isinstance(x, Layout)


def _list_of_numbers(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str) and all(map(_number, x))


ALIASES = {
    "L": ("Layout", "ComposedLayout"),
    "AnyLayout": ("Layout", "ComposedLayout"),
    "Mode": ("int", "Sequence[int]", "None"),
}
IS: dict[str, Callable[[Any], bool]] = {
    "Layout": lambda x: isinstance(x, Layout),
    "ComposedLayout": lambda x: isinstance(x, ComposedLayout),
    "Swizzle": lambda x: isinstance(x, Swizzle),
    "IntTuple": _numbers,
    "Tiler": _tiler,
    "Index": _index,
    "Coord": _coordinate,
    "Sequence[int]": _list_of_numbers,
    "int": _integers,
    "None": lambda x: x is None,
}
WORDS = {
    "Layout": ("layout", "Layout((4,2)), in text (4,2):(1,2)"),
    "Swizzle": ("swizzle", "Swizzle(3,4,3), in text S<3,4,3>"),
    "IntTuple": ("shape of numbers", "(4,(2,8))"),
    "Tiler": ("tiler", "(4,Layout(2,8))"),
    "Index": ("coordinate of numbers", "(1,(0,2))"),
    "Coord": ("coordinate", "(1,(0,None))"),
    "Sequence[int]": ("list of numbers", "[0,1]"),
    "int": ("number", "4"),
}
