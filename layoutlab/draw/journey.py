"""Journeys: one element followed through the handoffs of a kernel, with its location at each stop.

An element is named by its tile and coordinates, O[5,17]. At a handoff of the same tile it is one element; at another
tile's, the coordinates that mean the same are the same, and the others run over their whole extent: O[5,17] is made of
row 5 of P, all keys. What a coordinate means is its name, unless the kernel says otherwise: an MMA's n is a key in one
handoff and a column of O in another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from layoutlab.draw.handoffs import STEP_BITS, short
from layoutlab.draw.legs import Leg, Tensor, leg_of
from layoutlab.draw.picture import printable
from layoutlab.errors import LayoutError
from layoutlab.handoff.core import Handoff, verify
from layoutlab.handoff.verdict import Location

LEAST = 20  # columns of a terminal

MOST_SHOWN = 2
"""Elements of a stop that are told one by one; of more, the first and the last."""

ARROW = " → "


@dataclass(frozen=True)
class Stop:
    """One handoff on the way: its title and verdict, which elements pass, and for some of them where."""

    title: str
    verdict: str
    coordinates: str
    count: int
    places: tuple[Place, ...]
    remark: str = ""


@dataclass(frozen=True)
class Place:
    """One element at one stop: from where it is taken, who holds it, where it is written and read, who has it then.

    `source` and `target` are in global memory, `taken` is the register that a load brings it to.
    """

    coordinate: str
    owner: str
    written: str
    read: str
    right: bool
    reader: str
    source: str = ""
    taken: str = ""
    target: str = ""


def journey(handoffs: Iterable[Handoff | Leg], element: str) -> list[Stop]:
    """The stops of an element, in the order of the handoffs.

    >>> from layoutlab.handoff import *
    >>> P = Tile("P", m=8, k=8, bits=16)
    >>> h = Handoff(P, writer=store("(8,8):(1,8)", smem("(8,8):(8,1)", over=P), bits=16), reader="(8,8):(8,1)")
    >>> journey([h], "P[5,2]")[0].places[0].written
    'sP byte 84, bank 21'
    """
    legs = [leg_of(h) for h in handoffs]
    name, numbers = parsed(element)
    home = next((leg for leg in legs if leg.handoff.tile.name == name), None)
    if home is None:
        there = ", ".join(dict.fromkeys(leg.handoff.tile.name for leg in legs))
        raise LayoutError(f"no handoff here is of a tile {name}: there are {there}")
    tile = home.handoff.tile
    if len(numbers) != len(tile.extents):
        raise LayoutError(f"{element}: tile {tile} has {len(tile.extents)} coordinates")
    for (axis, extent), value in zip(tile.extents.items(), numbers, strict=True):
        if value >= extent:
            raise LayoutError(f"{element}: {axis} ends at {extent - 1} in tile {tile}")
    fixed = {home.means[axis]: value for axis, value in zip(tile.extents, numbers, strict=True)}
    return stops_of([leg for leg in legs if fixed.keys() & set(leg.means.values())], fixed)


def stops_of(legs: Iterable[Leg], fixed: Mapping[str, int]) -> list[Stop]:
    """The stops of a kernel's legs, of an element of which some coordinates are known by what they mean."""
    return [_stop(leg, {a: fixed[means] for a, means in leg.means.items() if means in fixed}) for leg in legs]


def journey_text(stops: Sequence[Stop], element: str, width: int = 100) -> str:
    """The journey as lines of text, at most `width` characters long where a word allows it."""
    lines = _folded(f"{printable(element)} through {len(stops)} handoff{'s' * (len(stops) != 1)}", width, 0)
    for number, stop in enumerate(stops, 1):
        lines += ["", *_folded(f"{number}. {stop.title}: {stop.verdict}", width, 3)]
        lines += [line for text in (stop.coordinates, stop.remark) if text for line in _folded(f"   {text}", width, 3)]
        for i, place in enumerate(stop.places):
            if i and stop.count > len(stop.places):
                lines.append(f"     … {stop.count - len(stop.places)} more")
            lines += _hops_folded(f"     ({place.coordinate}) ", hops(place), width)
    return "\n".join(lines) + "\n"


def _hops_folded(start: str, parts: Sequence[str], width: int) -> list[str]:
    """The hops in lines that break before an arrow."""
    lines = [start + parts[0]]
    for part in parts[1:]:
        longer = f"{lines[-1]}{ARROW}{part}"
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(f"       {ARROW[1:]}{part}")
    return [folded for line in lines for folded in _folded(line, width, 9)]


def _folded(text: str, width: int, indent: int) -> list[str]:
    import textwrap

    return textwrap.wrap(
        text, max(width, LEAST), subsequent_indent=" " * indent, drop_whitespace=True, break_on_hyphens=False
    )


def journey_graph(stops: Sequence[Stop], element: str) -> str:
    """The journey as a graph's source: a chain of stops, an element's owner and locations in each."""
    import graphviz

    from layoutlab.draw.graph import FONT, wrapped

    title = graphviz.escape(printable(f"the way of {element}"))
    graph = graphviz.Digraph(
        "journey",
        graph_attr={"rankdir": "TB", "label": title, "labelloc": "t", "fontname": FONT},
        node_attr={"shape": "box", "fontname": FONT, "fontsize": "11"},
    )  # fmt: skip
    for number, stop in enumerate(stops):
        parts = [*wrapped(f"{stop.title}: {stop.verdict}"), *wrapped(stop.coordinates), *wrapped(stop.remark)]
        for place in stop.places:
            first, *others = hops(place)
            parts += [f"({place.coordinate}) {first}", *(f"   {ARROW[1:]}{hop}" for hop in others)]
        text = graphviz.escape(printable("\n".join(parts))).replace("\n", r"\l")  # each line ends at the left
        graph.node(f"s{number}", label=graphviz.nohtml(rf"{text}\l"))
        if number:
            graph.edge(f"s{number - 1}", f"s{number}")
    return str(graph.source)


def hops(place: Place) -> list[str]:
    """Where the element is, from one hand to the next."""
    wrong = "" if place.right else f", which READS AT {place.read}"
    reader = f"{place.reader}, {place.taken}" if place.taken else place.reader
    found = [place.source, place.owner, place.written, f"{reader}{wrong}", place.target]
    return [hop for hop in found if hop]


def parsed(element: str) -> tuple[str, tuple[int, ...]]:
    """O[5,17] as its tile's name and its coordinates."""
    m = re.fullmatch(r"\s*(\w+)\s*\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]\s*", element)
    if not m:
        raise LayoutError(f"{element!r} names no element: a tile and its coordinates, O[5,17]")
    return m[1], tuple(int(n) for n in m[2].split(","))


def _stop(leg: Leg, mine: Mapping[str, int]) -> Stop:
    """The handoff as the element passes it, with some of its tile's coordinates known."""
    import numpy as np

    h = leg.handoff
    owner = h.writer.owner
    t, v = (a.ravel() for a in np.meshgrid(*(np.arange(owner.places.axes[a]) for a in ("t", "v")), indexing="ij"))
    where = {a: np.broadcast_to(x, t.shape) for a, x in owner.places.at(t=t, v=v).items()}
    inside = [(where[a] >= 0) & (where[a] < e) for a, e in h.tile.extents.items()]
    here = np.flatnonzero(np.logical_and.reduce([*inside, *(where[a] == x for a, x in mine.items())]))
    free = [f"{a} = 0 to {e - 1}" for a, e in h.tile.extents.items() if a not in mine]
    told = ", ".join([*(f"{a} = {x}" for a, x in mine.items()), *free])
    chosen = here if len(here) <= MOST_SHOWN else here[[0, -1]]
    places = tuple(_place(leg, int(t[i]), int(v[i])) for i in chosen)
    remark = "; ".join(filter(None, (leg.remark, "" if len(here) else _unwritten(leg, mine))))
    return Stop(short(h), verify(h).verdict, f"tile {h.tile.name}: {told}", len(here), places, remark)


def _place(leg: Leg, t: int, v: int) -> Place:
    h = leg.handoff
    owner = h.writer.owner
    coordinate = {a: int(x) for a, x in owner.places.at(t=t, v=v).items()}
    wrote = leg.outputs(h.writer.write.at(t=t, v=v))
    read = leg.outputs(h.reader.read.at(**coordinate))
    named = owner.named({"t": t, "v": v})
    at, to = (
        _told(leg, Location(space, x), coordinate) for space, x in ((h.writer.space, wrote), (h.reader.space, read))
    )
    return Place(
        ", ".join(f"{a}={x}" for a, x in coordinate.items()),
        f"{named} of warp {(t + owner.first_thread) // 32}" if owner.threaded else f"{leg.writer[0]}, {named}",
        at,
        to,
        wrote == read and h.writer.space == h.reader.space,
        _reads(leg, coordinate),
        _tensor(leg.source, coordinate),
        _taken(leg, coordinate),
        "" if h.writer.space == "gmem" else _tensor(leg.target, coordinate),
    )


def _unwritten(leg: Leg, mine: Mapping[str, int]) -> str:
    """That nobody writes the element, and where it is read."""
    if mine.keys() != leg.handoff.tile.extents.keys():
        return "nobody writes any of them"
    read = Location(leg.handoff.reader.space, leg.outputs(leg.handoff.reader.read.at(**mine)))
    return f"nobody writes it, and {_reads(leg, mine)} READS AT {_told(leg, read, mine)}"


def _reads(leg: Leg, coordinate: Mapping[str, int]) -> str:
    """Who reads the element, and in which step."""
    source = leg.handoff.reader.source
    step = ""
    if "operand" in source and "k" in coordinate:
        step = f", step {coordinate['k'] * leg.handoff.tile.bits // STEP_BITS}"
    operand = re.search(r"operand [AB]", source)
    return leg.reader[0] + (f", {operand[0]}" if operand else "") + step


def _taken(leg: Leg, coordinate: Mapping[str, int]) -> str:
    """Whose register the element is in after a load."""
    from layoutlab.handoff.inverse import inverse

    owner = leg.handoff.reader.owner
    if owner is None or leg.handoff.reader.space == "rmem":
        return ""
    index = {name: int(x) for name, x in inverse(owner.places).at(**coordinate).items()}
    return f"{owner.named(index)} of warp {(index['t'] + owner.first_thread) // 32}"


def _tensor(where: Tensor | str, coordinate: Mapping[str, int]) -> str:
    return where.told(coordinate) if isinstance(where, Tensor) else where


def _told(leg: Leg, location: Location, coordinate: Mapping[str, int]) -> str:
    """The location in its buffer, and in shared memory the bank."""
    if location.space == "gmem":
        there, name = leg.target, leg.name
        if isinstance(there, Tensor) and location.outputs["bit"] == 8 * there.byte(there.index(coordinate)):
            name = there.named(coordinate)
        return f"{name} in global memory, {location}"
    bank = f", bank {location.outputs['bit'] // 32 % 32}" if location.space == "smem" else ""
    name = f"{leg.name} " if location.space == "smem" else ""
    return f"{name}{location}{bank}"
