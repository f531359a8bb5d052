"""registry: one declaration per opcode, listing every qualifier that it accepts.

`@instruction("shfl.sync .mode:up|down|bfly|idx .b32")` declares an opcode and, in order, its qualifiers: `.b32` must be
there, `.ftz?` may be, `.mode:a|b` must be one of these and `.scope:a|b?` may. What a declaration does not list is
unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from layoutlab.ptx.parse import Instruction, PtxError
from layoutlab.ptx.state import Frame, Op

if TYPE_CHECKING:
    from layoutlab.ptx.decode import Decoder

Qualifiers = dict[str, str]


class Gate:
    """Something that threads wait for: `poll` says which executing lanes may pass, True for all of them."""

    def poll(self, f: Frame) -> Any:
        raise NotImplementedError

    def describe(self, f: Frame) -> str:
        """What the executing lanes wait for, for the deadlock report."""
        raise NotImplementedError

    def give_up(self, f: Frame) -> bool:
        """Let the executing lanes pass without what they wait for, if the instruction may (a try_wait times out)."""
        return False


@dataclass(frozen=True)
class Decoded:
    """An instruction ready to run. `sync` names the lanes that must be converged: warp, warpgroup or a mask slot."""

    op: Op | None = None
    gate: Gate | None = None
    sync: str | int | None = None
    before: Op | None = None


Handler = Callable[["Decoder", Instruction, Qualifiers], "Op | Decoded"]


@dataclass(frozen=True)
class _Slot:
    name: str
    choices: frozenset[str]
    optional: bool


@dataclass(frozen=True)
class _Form:
    spec: str
    slots: tuple[_Slot, ...]
    handler: Handler

    def match(self, parts: list[str]) -> Qualifiers | None:
        found: Qualifiers = {}
        at = 0
        for slot in self.slots:
            if at < len(parts) and parts[at] in slot.choices:
                found[slot.name] = parts[at]
                at += 1
            elif not slot.optional:
                return None
        return found if at == len(parts) else None


_FORMS: dict[str, list[_Form]] = {}
_ABSENT: list[tuple[re.Pattern[str], str]] = []


def not_emulated(pattern: str, what: str) -> None:
    """Name what a pattern of opcodes would need, for those that no declaration accepts."""
    _ABSENT.append((re.compile(pattern), what))


def instruction(*specs: str) -> Callable[[Handler], Handler]:
    """Declare the forms of an opcode that a handler decodes."""

    def declare(handler: Handler) -> Handler:
        for spec in specs:
            head, *rest = spec.split()
            _FORMS.setdefault(head, []).append(_Form(spec, tuple(_slot(word) for word in rest), handler))
        return handler

    return declare


def _slot(word: str) -> _Slot:
    optional = word.endswith("?")
    word = word.removesuffix("?")[1:]
    name, colon, choices = word.partition(":")
    if not colon or choices.startswith(":"):  # a literal, whose own :: is no separator
        return _Slot(word, frozenset([word]), optional)
    return _Slot(name, frozenset(choices.split("|")), optional)


def lookup(ins: Instruction) -> tuple[Handler, Qualifiers]:
    """The handler and qualifiers of an instruction; an unknown opcode or qualifier stops with its line."""
    parts = ins.opcode.split(".")
    known = []
    for length in range(len(parts), 0, -1):
        for form in _FORMS.get(".".join(parts[:length]), ()):
            found = form.match(parts[length:])
            if found is not None:
                return form.handler, found
            known.append(form.spec)
    for pattern, what in _ABSENT:
        if pattern.match(ins.opcode):
            raise PtxError(f"{ins.opcode}: {what} is not emulated yet", ins.line)
    if not known:
        raise PtxError(f"unknown opcode {ins.opcode!r}", ins.line)
    raise PtxError(f"{ins.opcode!r} has qualifiers that are not declared; {_nearest(ins.opcode, known)}", ins.line)


def _nearest(opcode: str, specs: list[str]) -> str:
    """The declared forms that share most words with an opcode, three at most."""
    words = set(opcode.split("."))
    ranked = sorted(specs, key=lambda spec: -len(words & set(re.split(r"[\s.:|?]+", spec))))
    more = f"; {len(specs) - 3} more" if len(specs) > 3 else ""
    return f"known: {'; '.join(ranked[:3])}{more}"


def declared() -> dict[str, list[str]]:
    """Every declared form, by opcode."""
    return {head: [form.spec for form in forms] for head, forms in sorted(_FORMS.items())}
