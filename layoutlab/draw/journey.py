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
from typing import Any

from layoutlab.draw.handoffs import STEP_BITS, reader_word, short
from layoutlab.errors import LayoutError
from layoutlab.handoff.core import Handoff, verify
from layoutlab.handoff.verdict import Location

MOST_SHOWN = 2
"""Elements of a stop that are told one by one; of more, the first and the last."""


@dataclass(frozen=True)
class Stop:
    """One handoff on the way: its title and verdict, which elements pass, and for some of them where."""

    title: str
    verdict: str
    coordinates: str
    count: int
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Place:
    """One element at one stop: who holds it, where it is written, where it is read."""

    coordinate: str
    owner: str
    written: str
    read: str
    right: bool
    reader: str


def journey(handoffs: Iterable[Handoff], element: str, meanings: Sequence[tuple[str, ...]] | None = None) -> list[Stop]:
    """The stops of an element, in the order of the handoffs.

    >>> from layoutlab.handoff import *
    >>> P = Tile("P", m=8, k=8, bits=16)
    >>> h = Handoff(P, writer=store("(8,8):(1,8)", smem("(8,8):(8,1)", over=P), bits=16), reader="(8,8):(8,1)")
    >>> journey([h], "P[5,2]")[0].places[0].written
    'byte 84, bank 21'

    `meanings` says for each handoff what its tile's coordinates are in the kernel. Without them a coordinate is its
    name, and a handoff that shares none is no stop. Raises LayoutError where no handoff has the tile, or the element
    lies outside of it.
    """
    made = list(handoffs)
    name, numbers = _parsed(element)
    spoken = (
        [dict(zip(h.tile.extents, m, strict=True)) for h, m in zip(made, meanings, strict=True)] if meanings else []
    )
    spoken = spoken or [{axis: axis for axis in h.tile.extents} for h in made]
    home = next((i for i, h in enumerate(made) if h.tile.name == name), None)
    if home is None:
        there = ", ".join(dict.fromkeys(h.tile.name for h in made))
        raise LayoutError(f"no handoff here is of a tile {name}: there are {there}")
    tile = made[home].tile
    if len(numbers) != len(tile.extents):
        raise LayoutError(f"{element}: tile {tile} has {len(tile.extents)} coordinates")
    for (axis, extent), value in zip(tile.extents.items(), numbers, strict=True):
        if value >= extent:
            raise LayoutError(f"{element}: {axis} ends at {extent - 1} in tile {tile}")
    fixed = {spoken[home][axis]: value for axis, value in zip(tile.extents, numbers, strict=True)}
    stops = [
        _stop(h, {a: fixed[m] for a, m in means.items() if m in fixed}) for h, means in zip(made, spoken, strict=True)
    ]
    return [stop for stop, means in zip(stops, spoken, strict=True) if meanings or fixed.keys() & set(means.values())]


def journey_text(stops: Sequence[Stop], element: str) -> str:
    """The journey as lines of text."""
    lines = [f"{element} through {len(stops)} handoff{'s' * (len(stops) != 1)}"]
    for number, stop in enumerate(stops, 1):
        lines += ["", f"{number}. {stop.title}: {stop.verdict}", f"   {stop.coordinates}"]
        for i, place in enumerate(stop.places):
            if i and stop.count > len(stop.places):
                lines.append(f"     … {stop.count - len(stop.places)} more")
            lines.append(f"     ({place.coordinate}) {place.owner} → {_spoken(place)}")
    return "\n".join(lines) + "\n"


def journey_graph(stops: Sequence[Stop], element: str) -> str:
    """The journey as a graph's source: a chain of stops, an element's owner and locations in each."""
    import graphviz

    from layoutlab.draw.graph import FONT, wrapped

    graph = graphviz.Digraph(
        "journey",
        graph_attr={"rankdir": "TB", "label": f"the way of {element}", "labelloc": "t", "fontname": FONT},
        node_attr={"shape": "box", "fontname": FONT, "fontsize": "11"},
    )
    for number, stop in enumerate(stops):
        parts = [*wrapped(f"{stop.title}: {stop.verdict}"), stop.coordinates]
        for place in stop.places:
            parts.append(f"({place.coordinate}) {place.owner}\n→ {_spoken(place)}")
        graph.node(f"s{number}", label=graphviz.escape("\n".join(parts)))
        if number:
            graph.edge(f"s{number - 1}", f"s{number}")
    return str(graph.source)


def _spoken(place: Place) -> str:
    """Where the element is written, and who reads it there or elsewhere."""
    return f"{place.written} → {place.reader}" + ("" if place.right else f", which READS AT {place.read}")


def _parsed(element: str) -> tuple[str, tuple[int, ...]]:
    m = re.fullmatch(r"\s*(\w+)\s*\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]\s*", element)
    if not m:
        raise LayoutError(f"{element!r} names no element: a tile and its coordinates, O[5,17]")
    return m[1], tuple(int(n) for n in m[2].split(","))


def _stop(h: Handoff, mine: Mapping[str, int]) -> Stop:
    """The handoff as the element passes it, with some of its tile's coordinates known."""
    import numpy as np

    owner = h.writer.owner
    t, v = (a.ravel() for a in np.meshgrid(*(np.arange(owner.places.axes[a]) for a in ("t", "v")), indexing="ij"))
    where = {a: np.broadcast_to(x, t.shape) for a, x in owner.places.at(t=t, v=v).items()}
    inside = [(where[a] >= 0) & (where[a] < e) for a, e in h.tile.extents.items()]
    here = np.flatnonzero(np.logical_and.reduce([*inside, *(where[a] == x for a, x in mine.items())]))
    free = [f"{a} = 0 to {e - 1}" for a, e in h.tile.extents.items() if a not in mine]
    told = ", ".join([*(f"{a} = {x}" for a, x in mine.items()), *free])
    chosen = here if len(here) <= MOST_SHOWN else here[[0, -1]]
    places = tuple(_place(h, int(t[i]), int(v[i])) for i in chosen)
    return Stop(short(h), verify(h).verdict, f"tile {h.tile.name}: {told}", len(here), places)


def _place(h: Handoff, t: int, v: int) -> Place:
    owner = h.writer.owner
    coordinate = {a: int(x) for a, x in owner.places.at(t=t, v=v).items()}
    wrote = {o: int(x) for o, x in h.writer.write.at(t=t, v=v).items()}
    read = {o: int(x) for o, x in h.reader.read.at(**coordinate).items()}
    named = owner.named({"t": t, "v": v})
    return Place(
        ", ".join(f"{a}={x}" for a, x in coordinate.items()),
        f"{named} of warp {(t + owner.first_thread) // 32}"
        if owner.threaded
        else f"global memory → {h.writer.unit} {named}",
        _told(Location(h.writer.space, wrote)),
        _told(Location(h.reader.space, read)),
        wrote == read and h.writer.space == h.reader.space,
        _reads(h, coordinate),
    )


def _reads(h: Handoff, coordinate: Mapping[str, int]) -> str:
    """Who reads the element, and in which step."""
    step = ""
    if "operand" in h.reader.source and "k" in coordinate:
        step = f", step {coordinate['k'] * h.tile.bits // STEP_BITS}"
    end = " → global memory" if "TMA store" in h.reader.source else ""
    return f"{reader_word(h)}{step}{end}"


def _told(location: Any) -> str:
    bank = f", bank {location.outputs['bit'] // 32 % 32}" if location.space == "smem" else ""
    return f"{location}{bank}"
