"""Subjects: what a guard is given, as the functions that it is made of and the invariants that it should keep.

>>> subject = subject_of("(4,2):(1,4)")
>>> subject.kind, [f.name for f in subject.functions], subject.invariants
('layout', ['layout'], {'injective': ''})

A layout is one function. A tiled copy is its thread-value map, its tiler and its atom's two sides; a handoff its owner,
its writes and its reads; a trace every layout that it recorded, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from layoutlab.digits import Map
from layoutlab.errors import LayoutError
from layoutlab.guard.function import Function, of_layout, of_map, of_places, of_tv
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout


@dataclass(frozen=True, eq=False)
class Subject:
    """What is guarded: its kind, its functions, what is kept as text alone, and its invariants.

    `texts` are parts that are no function of known numbers (a dynamic layout, an opaque tiler): they are compared as
    texts. `invariants` gives each that applies the fault, or "" where it holds.
    """

    kind: str
    functions: list[Function]
    texts: Mapping[str, str] = field(default_factory=dict)
    invariants: Mapping[str, str] = field(default_factory=dict)
    about: str = ""


def subject_of(what: Any) -> Subject:
    """The subject that an object or a text is; a live CuTe DSL object is read by what it prints.

    Raises LayoutError for what says no function.
    """
    if isinstance(what, Subject):
        return what
    if isinstance(what, Map):
        return Subject("map", [of_map("map", what)])
    if isinstance(what, (Layout, ComposedLayout)):
        return _layout(what)
    made = handoff_of(what)
    if made is not None:
        return _handoff(made)
    if hasattr(what, "layouts") and hasattr(what, "guarded"):  # a trace
        return _named("trace", what.guarded())
    if isinstance(what, Mapping):
        return _named("group", what)
    return _record(what)


def handoff_of(what: Any) -> Any:
    """The handoff behind a handoff, a case, a verdict, or a handoff's function with its defaults; None for others."""
    module, name = type(what).__module__, type(what).__name__
    if not module.startswith("layoutlab.handoff"):
        return None
    made: dict[str, Callable[[], Any]] = {
        "Handoff": lambda: what,
        "HandoffFunction": lambda: what(),
        "Case": lambda: what.make(),
        "Verdict": lambda: what.handoff,
    }
    return made[name]() if name in made else None


def _named(kind: str, named: Mapping[str, Any]) -> Subject:
    """Several subjects as one, their parts under their names."""
    functions, texts, invariants = list[Function](), dict[str, str](), dict[str, str]()
    for name, what in named.items():
        try:
            one = subject_of(what)
        except LayoutError:
            texts[name] = str(what)
            continue
        for f in one.functions:
            label = name if len(one.functions) == 1 else f"{name} {f.name}"
            functions.append(Function(label, f.table, f.notation, f.swizzle, f.plus, f.unit, f.shape))
        texts |= {f"{name} {part}": text for part, text in one.texts.items()}
        if kind == "group":
            invariants |= {f"{name} {rule}": fault for rule, fault in one.invariants.items()}
    return Subject(kind, functions, texts, invariants)


def _layout(layout: Layout | ComposedLayout) -> Subject:
    try:
        function = of_layout("layout", layout)
    except LayoutError:
        outer = layout.outer if isinstance(layout, ComposedLayout) else layout
        if not outer.symbolic():
            raise
        return Subject("layout", [], {"layout": str(layout)})
    return Subject("layout", [function], {}, {"injective": not_injective(function)})


def _handoff(made: Any) -> Subject:
    from layoutlab.handoff.core import verify

    owner, tile = made.writer.owner, made.tile
    bit = "bits"
    functions = [
        of_places("owner", owner.places, str(owner), "coordinates"),
        of_places("write", made.writer.write, f"{made.writer.storage} {made.writer.route}", bit),
        of_places("read", made.reader.read, made.reader.text, bit),
    ]
    faults = {}
    for claim in verify(made).claims:
        name = {"exclusive": "injective"}.get(claim.name, claim.name)
        said = claim.witness.message if claim.witness else claim.why
        faults[name] = "" if claim.verdict == "proved" else f"{claim.verdict}: {said}"
    about = f"{tile}, {made.writer.bits}-bit stores to {made.writer.space}, read by {made.reader.who}"
    return Subject("handoff", functions, {}, faults, about)


def _record(what: Any) -> Subject:
    from layoutlab.text import MmaAtom, Tensor, TiledCopy, TiledMma, parse
    from layoutlab.text.records import CopyAtom, tiler_text

    value = what if type(what).__module__.startswith("layoutlab.text") else parse(str(what))
    if isinstance(value, (Layout, ComposedLayout)):
        return _layout(value)
    if isinstance(value, Tensor):
        one = _layout(value.swizzled_layout())
        return Subject("tensor", one.functions, {**one.texts, "pointer": str(value.iterator)}, one.invariants)
    if isinstance(value, TiledCopy):
        functions, texts = _tiler(value.tiler)
        tv = of_tv("tv", value.tv, "element of the tile")
        atom = [of_tv("atom src", value.atom.src), of_tv("atom dst", value.atom.dst)]
        return Subject(
            "tiled copy", [tv, *functions, *atom], {**texts, "value type": value.atom.value_type}, _tv_rules(tv)
        )
    if isinstance(value, CopyAtom):
        return Subject("copy atom", [of_tv("src", value.src), of_tv("dst", value.dst)], {"type": value.value_type})
    if isinstance(value, (TiledMma, MmaAtom)):
        atom_of = value.atom if isinstance(value, TiledMma) else value
        parts = [of_tv(name, tv, "element") for name, tv in (("A", atom_of.a), ("B", atom_of.b), ("C", atom_of.c))]
        texts = {"shape mnk": tiler_text(atom_of.shape_mnk)}
        if isinstance(value, TiledMma):
            parts.append(of_layout("threads vmnk", value.thr))
            texts["permutation"] = tiler_text(value.permutation)
        return Subject("mma", parts, texts)
    raise LayoutError(f"{str(what).splitlines()[0]!r} is a {type(value).__name__}, which is no function to guard")


def _tiler(tiler: Any) -> tuple[list[Function], dict[str, str]]:
    from layoutlab.text.records import tiler_text

    entries = tiler if isinstance(tiler, tuple) else (tiler,)
    entries = tuple(Layout(entry) if isinstance(entry, int) else entry for entry in entries)
    if all(isinstance(entry, Layout) and not entry.symbolic() for entry in entries):
        return [of_layout(f"tiler {i}", entry) for i, entry in enumerate(entries)], {}
    return [], {"tiler": tiler_text(tiler)}


def _tv_rules(tv: Function) -> dict[str, str]:
    return {"injective": not_injective(tv)}


def not_injective(f: Function) -> str:
    """The first two indices with one value, in words; "" where there are none."""
    import numpy as np

    if f.size > 1 << 22:
        return "" if f.table.collision() is None else "two indices have one value"
    stacked = np.stack([f.values[out] for out in f.outputs], axis=1)
    _, first, inverse = np.unique(stacked, axis=0, return_index=True, return_inverse=True)
    if len(first) == f.size:
        return ""
    before = first[inverse.reshape(-1)]
    second = int((before != np.arange(f.size)).argmax())
    at = f.at(**index_of(f, second))
    where = spoken_value(f, at)
    return f"{spoken_index(f, int(before[second]))} and {spoken_index(f, second)} both give {where}"


def index_of(f: Function, flat: int) -> dict[str, int]:
    """The index at a place in counting order.

    >>> from layoutlab.guard.function import of_tv
    >>> index_of(of_tv("tv", Layout((4, 2))), 3)
    {'t': 1, 'v': 1}
    """
    weight, found = f.size, dict[str, int]()
    for axis, extent in f.axes.items():
        weight //= extent
        found[axis] = flat // weight % extent
    return found


def spoken_index(f: Function, flat: int) -> str:
    """T1 V0, index 5, or m=1, k=0."""
    index = index_of(f, flat)
    if list(index) == ["t", "v"]:
        return f"T{index['t']} V{index['v']}"
    if list(index) == ["i"]:
        coordinate = _coordinate(index["i"], f.shape)
        return f"index {index['i']}" + (f" {coordinate}" if coordinate else "")
    return ", ".join(f"{axis}={value}" for axis, value in index.items())


def _coordinate(flat: int, shape: tuple[int, ...]) -> str:
    if len(shape) < 2:
        return ""
    found = list[str]()
    for extent in shape:
        found.append(str(flat % extent))
        flat //= extent
    return f"({','.join(found)})"


def spoken_value(f: Function, outputs: Mapping[str, Any]) -> str:
    """byte 144, lane 3 column 5, m=1 k=0, or a number."""
    if "bit" in outputs:
        from layoutlab.handoff.verdict import Location

        return str(Location("tmem" if "lane" in outputs else "smem", {o: int(v) for o, v in outputs.items()}))
    if len(outputs) == 1:
        (value,) = outputs.values()
        return str(int(value))
    if all(out.startswith("@") for out in outputs):
        return "(" + ",".join(str(int(v)) for v in outputs.values()) + ")"
    return ", ".join(f"{out}={int(value)}" for out, value in outputs.items())
