"""`layoutlab diff A B`: are two layouts the same function, do they reach the same places, where do they part?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from layoutlab.errors import LayoutError

_EPILOG = """\
A and B are layouts as CuTe DSL, C++ or pycute prints them, swizzled or not; printed tensors, of which the layout and
the swizzle are compared; printed tiled copies, of which the TV layouts are; or expressions, as for `layoutlab eval`;
or files: goldens, traces (`layoutlab trace --save`), handoffs (FILE.py[:NAME]), or text that a kernel printed.

examples:
  layoutlab diff '(8,64):(64,1)' '(8,(8,8)):(64,(1,8))'
  layoutlab diff before.json after.json
  layoutlab diff '((32,4),(32,1)):((128,1),(4,0))' '(128,32):(1,128)'

exit status: 0 the same function, 1 different, 2 when a text is no layout, 3 when it was not decided
"""

STATUS = {"same": 0, "different": 1, "undecided": 3}


def add(subparsers: Any) -> None:
    """Adds the command's parser."""
    import argparse

    parser = subparsers.add_parser(
        "diff",
        description="Compares two layouts as functions of the flat index.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("a", metavar="A")
    parser.add_argument("b", metavar="B")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def run(args: Any) -> int:
    """Compares and prints."""
    from layoutlab.cli import diff_files

    if diff_files.is_file(args.a) or diff_files.is_file(args.b):
        return diff_files.run(args)
    a, b = read(args.a), read(args.b)
    found = difference(a, b)
    if args.json:
        import json

        from layoutlab.cli import stamp

        change = _change(a, b) if found.verdict == "different" else None
        told = {"change": change and {"kind": change.kind, "moved": change.moved}}
        print(json.dumps(stamp() | {"a": str(a), "b": str(b)} | found.as_json() | told, indent=2))
    else:
        print(f"A  {a}\nB  {b}")
        for label, text in found.lines():
            print(f"{label:<15} {text}")
        change = _change(a, b) if found.verdict == "different" else None
        if change is not None:
            moved = "" if change.moved is None or not change.of else f", {change.moved} of {change.of} moved"
            print(f"{'change':<15} {change.kind}{moved}")
        print(found.verdict)
    return STATUS[found.verdict]


def _change(a: Any, b: Any) -> Any:
    """The kind of change; None where the functions are of unknowns, or cannot be held as tables."""
    from layoutlab.guard import change_of
    from layoutlab.guard.function import of_layout

    try:
        return change_of(of_layout("layout", a), of_layout("layout", b))
    except LayoutError:
        return None


def read(text: str) -> Any:
    """The layout that a text or an expression stands for; refuses what is no layout."""
    from layoutlab.text import TiledCopy, as_layout
    from layoutlab.text.expression import value_of

    value = value_of(text)
    return value.tv if isinstance(value, TiledCopy) else as_layout(value, text)


@dataclass(frozen=True)
class Parting:
    """The first index where two functions differ, the coordinates that it is in either, and the values there."""

    index: int
    coordinates: tuple[str, str]
    values: tuple[int | str, int | str]
    where: str = ""


@dataclass(frozen=True)
class Difference:
    """What was found; `same_places` and `same_function` are None where they were not decided."""

    verdict: str
    same_text: bool
    same_function: bool | None
    same_places: bool | None
    method: str
    checked: int | None
    first: Parting | None
    owners: str
    why: str
    remark: str = ""

    def as_json(self) -> dict[str, Any]:
        """The JSON object, without what all of them begin with."""
        first = self.first and {
            "index": self.first.index,
            "coordinate_a": self.first.coordinates[0],
            "coordinate_b": self.first.coordinates[1],
            "a": self.first.values[0],
            "b": self.first.values[1],
            "where": self.first.where or None,
        }
        return {
            "verdict": self.verdict,
            "same_text": self.same_text,
            "same_function": self.same_function,
            "same_places": self.same_places,
            "method": self.method or None,
            "checked": self.checked,
            "first_difference": first,
            "owners": self.owners or None,
            "why": self.why or None,
            "remark": self.remark or None,
        }

    def lines(self) -> list[tuple[str, str]]:
        """(label, sentence) of the printed answer."""
        shown = [("same text", "yes" if self.same_text else "no"), ("same function", self._function())]
        if self.same_places is not None and not self.same_function:
            places = "the same locations in another order" if self.same_places else "other locations"
            shown.append(("same places", f"{'yes' if self.same_places else 'no'}: {places}"))
        more = (("owners", self.owners), ("remark", self.remark))
        return [*shown, *(line for line in more if line[1])]

    def _function(self) -> str:
        answer = {True: "yes", False: "no", None: "not decided"}[self.same_function]
        how = f" (by {self.method}, {self.checked} indices)" if self.method and self.checked is not None else ""
        if self.first is not None:
            (in_a, in_b), (a, b) = self.first.coordinates, self.first.values
            at = f"coordinate {in_a}" if in_a == in_b else f"coordinate {in_a} of A and {in_b} of B"
            parts = f"they part at index {self.first.index}, {at}{self.first.where}: A gives {a}, B gives {b}"
            return f"{answer}{how}; {parts}"
        return f"{answer}: {self.why}" if self.why else f"{answer}{how}"


def difference(a: Any, b: Any) -> Difference:
    """Compares two layouts as functions, and where they differ as sets of places."""
    from layoutlab.algebra import compare

    same_text = str(a) == str(b)
    if _sizes_differ(a.size(), b.size()) is None:
        why = f"A has {a.size()} coordinates, B has {b.size()}: whether these are as many is known at run time only"
        return Difference("undecided", same_text, None, None, "", None, None, "", why)
    if _sizes_differ(a.size(), b.size()):
        why = f"A has {a.size()} coordinates, B has {b.size()}"
        return Difference("different", same_text, False, None, "", None, None, "", why)
    try:
        found = compare(a, b)
    except LayoutError as e:
        return Difference("undecided", same_text, None, None, "", None, None, "", str(e))
    checked = found.checked if isinstance(found.checked, int) else None
    if found.equal:
        return Difference("same", same_text, True, True, found.method, checked, None, "", "")
    if found.first is None:
        return _unknowns(a, b, same_text)
    places, owners = _places(a, b, found.first)
    first, remark = _parting(a, b, found.first), _only_the_unit(a, b)
    return Difference("different", same_text, False, places, found.method, checked, first, owners, "", remark)


def _only_the_unit(a: Any, b: Any) -> str:
    """A sentence where the two are one function if a swizzle whose unit the text does not say counts bytes."""
    from layoutlab.algebra import functionally_equal
    from layoutlab.swizzle import ComposedLayout, Swizzle

    for name, x, other in (("A", a, b), ("B", b, a)):
        if not (isinstance(x, ComposedLayout) and isinstance(x.inner, Swizzle) and x.inner.unit_bits is None):
            continue
        plain, stated = x.inner, getattr(other, "element_bits", None)
        for bits in (16, 8, 32) if stated is None else (stated,):
            in_bytes = Swizzle(plain.bits, plain.base, plain.shift, 8)
            read = ComposedLayout(in_bytes, x.offset, x.outer, bits)
            try:
                if functionally_equal(read, other):
                    return (
                        f"the text of {name} does not say what its swizzle counts, and it was read as counting what "
                        f"the layout counts: if it counts bytes, of {bits}-bit elements, the two are the same "
                        f"function; {in_bytes} o {x.offset} o [{bits}b]{x.outer} says so"
                    )
            except LayoutError:
                continue
    return ""


def _sizes_differ(a: Any, b: Any) -> bool | None:
    """Whether two numbers of coordinates differ; None where some value of a `?` may make them equal."""
    from math import gcd

    if a == b or not any(getattr(size, "anonymous", False) for size in (a, b)):
        return bool(a != b)
    terms = dict(getattr(a - b, "terms", ()))
    constant = terms.pop((), 0)
    return True if constant % gcd(*terms.values()) else None


def _parting(a: Any, b: Any, index: int, where: str = "") -> Parting:
    from layoutlab.int_tuple import idx2crd, to_text

    at = (to_text(idx2crd(index, a.shape)), to_text(idx2crd(index, b.shape)))
    values = [v if isinstance(v, int) else to_text(v) for v in (a(index), b(index))]
    return Parting(index, at, (values[0], values[1]), where)


# -- unknowns ---------------------------------------------------------------------------------------------------------


def _unknowns(a: Any, b: Any, same_text: bool) -> Difference:
    """Two forms with named unknowns that are not the same: different, if some numbers for them show it."""
    from layoutlab.algebra import compare

    names = sorted(_names(a) | _names(b))
    for numbers in islice(product((2, 3, 5, 4), repeat=len(names)), 256):
        values = dict(zip(names, numbers, strict=True))
        try:
            x, y = _at(a, values), _at(b, values)
            found = compare(x, y)
        except LayoutError:
            continue
        if found.first is not None:
            where = " with " + ", ".join(f"{name}={value}" for name, value in values.items())
            first = _parting(x, y, found.first, where)
            return Difference("different", same_text, False, None, "", None, first, "", "")
    why = "their forms differ, but no numbers tried for the unknowns make them differ"
    return Difference("undecided", same_text, None, None, "", None, None, "", why)


def _entries(x: Any) -> list[Any]:
    from layoutlab.int_tuple import flatten

    if not hasattr(x, "outer"):
        return [*flatten((x.shape, x.stride))]
    inner = _entries(x.inner) if hasattr(x.inner, "stride") else []
    return [*inner, *flatten(x.offset), *_entries(x.outer)]


def _names(x: Any) -> set[str]:
    leaves = [getattr(leaf, "value", leaf) for leaf in _entries(x)]
    return {name for leaf in leaves if not isinstance(leaf, int) for name in leaf.unknowns}


def _at(x: Any, values: dict[str, int]) -> Any:
    """A layout with numbers for its unknowns."""
    from layoutlab.int_tuple import Basis, map_leaves
    from layoutlab.layout import Layout
    from layoutlab.swizzle import ComposedLayout

    def number(leaf: Any) -> Any:
        if isinstance(leaf, Basis):
            return Basis(number(leaf.value), leaf.path)
        return leaf if isinstance(leaf, int) else leaf.at(**values)

    if isinstance(x, Layout):
        return Layout(map_leaves(number, x.shape), map_leaves(number, x.stride))
    inner = _at(x.inner, values) if isinstance(x.inner, Layout) else x.inner
    return ComposedLayout(inner, map_leaves(number, x.offset), _at(x.outer, values), x.element_bits)


# -- places -----------------------------------------------------------------------------------------------------------


def _places(a: Any, b: Any, first: int) -> tuple[bool | None, str]:
    """Whether both reach the same locations, and who has the first differing one in either."""
    from layoutlab.int_tuple import idx2crd, to_text

    try:
        there_a, there_b = _locations(a), _locations(b)
    except LayoutError:
        return None, ""
    if set(there_a) != set(there_b):
        return False, ""
    place = there_a[first]
    other = there_b.index(place)
    pairs = [idx2crd(first, a.shape), idx2crd(other, b.shape)]
    if a.rank() == b.rank() == 2 and a[0].size() == b[0].size():
        threads = a[0].size()
        names = [f"T{i % threads} V{i // threads}" for i in (first, other)]
        return True, f"read as (thread, value), location {place} is of {names[0]} in A and of {names[1]} in B"
    return True, f"location {place} is of {to_text(pairs[0])} in A and of {to_text(pairs[1])} in B"


def _locations(x: Any) -> list[int]:
    """Every location in counting order, enumerated in a limit; refuses coordinates."""
    from layoutlab.layout import Layout
    from layoutlab.survey import locations

    if isinstance(x, Layout):
        return locations(x)
    if isinstance(x.inner, Layout) or x.inner is None or not isinstance(x.offset, int):
        raise LayoutError(f"{x} gives no plain locations")
    swizzle = x.element_swizzle()
    return [swizzle(location + x.offset) for location in locations(x.outer)]
