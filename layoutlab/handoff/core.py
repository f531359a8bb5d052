"""Handoff, the decorator that names one with its settings, and `verify`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import update_wrapper
from time import perf_counter
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.handoff.claims import Question, decide
from layoutlab.handoff.reader import Reader, declared
from layoutlab.handoff.settings import Settings
from layoutlab.handoff.tile import Tile
from layoutlab.handoff.verdict import Refuted, Verdict
from layoutlab.handoff.writer import Writer
from layoutlab.symbol import Span, Sym, at_most


@dataclass(frozen=True, init=False, eq=False)
class Handoff:
    """A tile, its writer and its reader.

    A reader given as a bare layout, or the text of one, is believed and reported as declared. `live` names other
    buffers, by their bytes or, in Tensor Memory, columns, which the writer must leave alone; `around` names more of
    them, so that a report can say whose place it is that the reader reads.
    """

    tile: Tile
    writer: Writer
    reader: Reader
    live: Mapping[str, range]
    around: Mapping[str, range]
    name: str
    doc: str
    params: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings | None = None

    def __init__(
        self,
        tile: Tile,
        *,
        writer: Writer,
        reader: Any,
        live: Mapping[str, range | Span] | None = None,
        around: Mapping[str, range | Span] | None = None,
    ) -> None:
        if not isinstance(tile, Tile) or not isinstance(writer, Writer):
            raise LayoutError("a handoff takes a Tile, writer=store(...) and reader=umma_a(...) or a layout")
        reader = reader if isinstance(reader, Reader) else declared(reader, tile)
        for what, theirs in (("writer", writer.tile), ("reader", reader.tile)):
            if theirs != tile:
                raise LayoutError(f"the handoff is of {tile}, its {what} has {theirs}")
        buffers = {"live": _ranges("live", live), "around": _ranges("around", around)}
        parts = {"tile": tile, "writer": writer, "reader": reader, **buffers, "name": tile.name, "doc": ""}
        for name, value in {**parts, "params": {}, "settings": None}.items():
            object.__setattr__(self, name, value)

    def named(self, name: str, doc: str, params: Mapping[str, Any], settings: Settings) -> Handoff:
        """The same handoff under a name and the settings that made it."""
        new = Handoff(self.tile, writer=self.writer, reader=self.reader, live=self.live, around=self.around)
        for attribute, value in {"name": name, "doc": doc, "params": dict(params), "settings": settings}.items():
            object.__setattr__(new, attribute, value)
        return new

    def __str__(self) -> str:
        return _titled(self.name, self.params)


def _ranges(what: str, buffers: Mapping[str, range | Span] | None) -> dict[str, Any]:
    """Buffers by name, without spans of nothing; refused where one is no range of bytes or columns."""
    if buffers is not None and not isinstance(buffers, Mapping):
        raise LayoutError(f"{what}={buffers!r}: buffers are given by name, {{'S': range(0, 64)}}")
    for name, place in (buffers or {}).items():
        if isinstance(place, Span):
            if not at_most(place.start - place.stop, 0, f"{name} does not end before it starts"):
                raise LayoutError(f"{what}: {name} would start at {place.start} and end at {place.stop}, before it")
        elif not isinstance(place, range) or place.step != 1 or not place:
            raise LayoutError(f"{what}: {name} is {place!r}, and a buffer is a range(first, end) that holds something")
    return {name: place for name, place in (buffers or {}).items() if isinstance(place, range) or _holds(place)}


def _holds(place: Span) -> bool:
    """Whether a span holds something, of symbols always."""
    return isinstance(place.start, Sym) or isinstance(place.stop, Sym) or place.start < place.stop


def _titled(name: str, params: Mapping[str, Any]) -> str:
    return name + "".join(f" {k}={v}" for k, v in params.items())


@dataclass(frozen=True)
class Case:
    """One combination of a handoff's settings, made when it is verified."""

    function: HandoffFunction
    chosen: Mapping[str, Any]

    @property
    def params(self) -> dict[str, Any]:
        """All settings, the defaults of the others included."""
        return self.function.settings.complete(self.chosen)

    def make(self) -> Handoff:
        """The handoff; raises LayoutError where the function refuses these settings."""
        return self.function(**self.chosen)

    def __str__(self) -> str:
        return ",".join(f"{k}={v}" for k, v in self.chosen.items())


class HandoffFunction:
    """A function from settings to a Handoff; called, it gives the handoff with its name and settings."""

    def __init__(self, function: Callable[..., Handoff]) -> None:
        self.function = function
        self.settings = Settings.of(function)
        self.__name__ = function.__name__
        self.doc = (function.__doc__ or "").strip()
        self.general: HandoffFunction = self
        update_wrapper(self, function)

    def in_general(self, function: Callable[..., Handoff]) -> HandoffFunction:
        """Names the function of which this one has chosen values: where extents are any multiples, say.

        `verify NAME --for-all` is about that one.
        """
        self.general = HandoffFunction(function)
        self.general.__name__, self.general.doc = self.__name__, self.doc
        self.general.settings = replace(self.general.settings, owner=self.__name__)
        return self.general

    def __call__(self, *args: Any, **values: Any) -> Handoff:
        if len(args) > len(self.settings.entries):
            raise LayoutError(f"{self.__name__} has {len(self.settings.entries)} settings, {len(args)} were given")
        named = dict(zip((entry.name for entry in self.settings.entries), args, strict=False))
        params = self.settings.complete({**named, **values})
        made = self.function(**params)
        if not isinstance(made, Handoff):
            raise LayoutError(f"{self.__name__} returned {type(made).__name__}, not a Handoff")
        return made.named(self.__name__, self.doc, params, self.settings)

    def cases(self) -> list[Case]:
        """Every combination of the settings that list their values."""
        return [Case(self, chosen) for chosen in self.settings.combinations()]


def handoff(function: Callable[..., Handoff]) -> HandoffFunction:
    """Makes a function of annotated settings a named handoff, which `layoutlab verify FILE.py` finds.

    >>> from typing import Literal
    >>> from layoutlab.handoff import Tile, owned, smem, store
    >>> @handoff
    ... def rows(k: Literal[64, 128] = 64):
    ...     Q = Tile("Q", m=128, k=k, bits=16)
    ...     sQ = smem(f"(128,{k}):({k},1)", over=Q)
    ...     return Handoff(Q, writer=store(f"(128,{k}):(1,128)", sQ, bits=16), reader=f"(128,{k}):({k},1)")
    >>> rows().params, [str(case) for case in rows.cases()]
    ({'k': 64}, ['k=64', 'k=128'])
    """
    return HandoffFunction(function)


def verify(h: Handoff | Case) -> Verdict:
    """The five claims about a handoff; `seconds` is the time that the claims took, the explanation left out.

    Only `verdict.proved` is success: a claim that could not be decided is none.
    """
    made = h.make() if isinstance(h, Case) else h
    if not isinstance(made, Handoff):
        raise LayoutError(f"verify takes a handoff, not {type(made).__name__}; call the function with its settings")
    question = Question(made.tile, made.writer, made.reader, made.live, made.around)
    start = perf_counter()
    claims = decide(question)
    seconds = perf_counter() - start
    explanation: tuple[str, ...] = ()
    if any(claim.verdict == "refuted" for claim in claims):
        from layoutlab.handoff.explain import explain

        explanation = explain(question, claims)
    return Verdict(made, claims, explanation, seconds)


def _assert(h: Handoff | Case, *names: str) -> Verdict:
    __tracebackhide__ = True
    verdict = verify(h)
    for name in names:
        claim = verdict[name]
        if claim.verdict != "proved":
            text = claim.witness.message if claim.witness else claim.why
            reasons = "".join(f"\n  {line}" for line in verdict.explanation)
            raise Refuted(f"{text}\n  {verdict.handoff}: {name} is {claim.verdict}{reasons}")
    return verdict


def assert_proved(h: Handoff | Case) -> Verdict:
    """Raises Refuted, with the first witness, unless every claim is proved."""
    __tracebackhide__ = True
    return _assert(h, "legal", "inside", "covered", "placed", "exclusive")


def assert_placed(h: Handoff | Case) -> Verdict:
    """Raises Refuted, with the first witness, unless every element is written where it is read."""
    __tracebackhide__ = True
    return _assert(h, "placed")


def assert_inside(h: Handoff | Case) -> Verdict:
    """Raises Refuted unless nothing leaves the tile or its allocation."""
    __tracebackhide__ = True
    return _assert(h, "inside")


def assert_legal(h: Handoff | Case) -> Verdict:
    """Raises Refuted unless alignment, fields and lanes are what the hardware takes."""
    __tracebackhide__ = True
    return _assert(h, "legal")
