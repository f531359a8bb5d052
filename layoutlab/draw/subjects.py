"""Subjects: whatever a person has in hand, as a picture.

A layout, an ownership map, a tiled copy, an MMA, an instruction of Tensor Memory, a handoff or its verdict; the text
that a kernel printed; a live CuTe DSL object, by what it prints.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from layoutlab.digits import Map
from layoutlab.draw.items import WHOLE, Choice
from layoutlab.draw.layouts import layout_picture, owner_picture, ownership_picture, refuse_outside
from layoutlab.draw.picture import Picture
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle


def picture_of(what: Any, choice: Choice = WHOLE) -> Picture:
    """The picture of an object or of a text.

    >>> picture_of(Layout((4, 8), (8, 1))).panels[0].rows
    4
    >>> picture_of("((32,4),32):((1,32),128)", Choice(tile=(128, 32))).panels[0].text({"thread": [5], "value": [0]}, 0)
    ['T5', 'V0']

    Raises LayoutError for an object that says no locations.
    """
    if isinstance(what, Picture):
        return what
    if isinstance(what, str):
        found = _read(what)
        titled = replace(choice, title=choice.title or what.strip()) if isinstance(found, Map) else choice
        return picture_of(found, titled)
    if isinstance(what, Layout) and choice.tile:
        refuse_outside(what, choice.tile)
        return ownership_picture(what, choice.tile, choice)
    if isinstance(what, (Layout, ComposedLayout)):
        return layout_picture(what, choice)
    if isinstance(what, Swizzle):
        return layout_picture(_pattern(what), choice)
    if isinstance(what, Map):
        from layoutlab.draw.maps import map_picture

        return map_picture(what, choice)
    return _of_record(what, choice)


def _of_record(what: Any, choice: Choice) -> Picture:
    """Objects of the layers beside, whose modules are imported already where there is such an object."""
    from layoutlab.draw import instructions, tensor_memory

    module, name = type(what).__module__, type(what).__name__
    if name == "Owner":
        return owner_picture(what, choice)
    if module.startswith("layoutlab.handoff") and name in ("Handoff", "Verdict", "HandoffFunction", "Case"):
        from layoutlab.draw.handoffs import handoff_picture

        made = what() if name == "HandoffFunction" else what.make() if name == "Case" else what
        return handoff_picture(made, choice)
    drawn = {
        "TmemAtom": tensor_memory.tmem_atom_picture,
        "MatrixCopy": instructions.matrix_copy_picture,
        "MmaAtom": instructions.mma_picture,
        "CopyAtom": instructions.copy_atom_picture,
        "TiledCopy": instructions.tiled_copy_picture,
        "TiledMma": instructions.tiled_mma_picture,
        "TmemBuffers": tensor_memory.tmem_buffers_picture,
    }
    if module.startswith("layoutlab.") and name in drawn:
        return drawn[name](what, choice)
    if module.startswith("layoutlab.text") and name == "Tensor":
        if getattr(what.iterator, "space", None) == "tmem":
            return tensor_memory.tmem_layout_picture(what.layout, what.iterator.bits, choice, str(what))
        return picture_of(what.swizzled_layout(), choice)
    if module.startswith(("layoutlab.", "builtins")):
        raise LayoutError(f"{str(what).splitlines()[0]} ({name}) says no locations: nothing to draw")
    return picture_of(str(what), choice)


def _pattern(swizzle: Swizzle) -> ComposedLayout:
    """One period of a swizzle: a row for each value of its upper bits."""
    low = 1 << swizzle.base + swizzle.bits
    step = 1 << swizzle.base + max(swizzle.shift, 0)
    return ComposedLayout(swizzle, 0, Layout((1 << swizzle.bits, min(low, step)), (step, 1)), swizzle.unit_bits)


def _read(text: str) -> Any:
    """The object that a text names: an instruction, what a kernel printed, or an expression of layouts."""
    from layoutlab.text import parse

    if (found := instruction(text.strip())) is not None:
        return found
    try:
        return parse(text)
    except LayoutError:
        from layoutlab.text.expression import evaluate

        return evaluate(text)


def instruction(text: str) -> Any:
    """The instruction that a text names as PTX does, or None.

    >>> str(instruction("ldmatrix.x4")), str(instruction("mma.sync.m16n8k16.f32.bf16"))
    ('ldmatrix.m8n8.x4', 'mma.sync.m16n8k16.f32.bf16.bf16.f32')
    >>> instruction("tcgen05.mma.m64n32")(m=17, n=3)
    {'cta': 0, 'lane': 33, 'column': 3}

    tcgen05.mma's accumulator is named by m and n, its operand A in Tensor Memory by m, k and a width,
    tcgen05.mma.m128k64.b16; two CTAs by .cta_group::2.
    """
    if re.match(r"(ldmatrix|stmatrix)\b", text):
        return _matrix_copy(text)
    if re.match(r"(mma\.sync|wgmma)\b", text):
        from layoutlab.atoms.mma import mma_atoms

        found = next((atom for atom in mma_atoms() if f"{atom}.".startswith(f"{text}.")), None)
        if found is None:
            raise LayoutError(f"{text!r} names no MMA: mma.sync.m16n8k16.f32.bf16, say")
        return found
    if text.startswith("tcgen05.mma"):
        return _datapath(text)
    if re.match(r"tcgen05\.(ld|st)\.|(32x32b|16x64b|16x128b|16x256b|16x32bx2)\.x\d", text):
        from layoutlab.atoms.tmem import TmemAtom

        return TmemAtom.parse(text)
    return None


def _datapath(text: str) -> Map:
    """Where tcgen05.mma keeps D, or takes A from Tensor Memory."""
    from layoutlab.atoms.datapath import accumulator, operand_a

    m = re.fullmatch(r"tcgen05\.mma(\.ws)?(?:\.cta_group::([12]))?\.m(\d+)(?:n(\d+)|k(\d+)(?:\.b(\d+))?)", text)
    if not m:
        raise LayoutError(
            f"{text!r} names no tile of tcgen05.mma: tcgen05.mma.cta_group::2.m128n64, tcgen05.mma.m128k64.b16"
        )
    rows, group = int(m[3]), int(m[2] or 1)
    if m[4]:
        return accumulator(rows, int(m[4]), group, ws=bool(m[1]))
    return operand_a(rows, int(m[5]), int(m[6] or 16), group)


def _matrix_copy(text: str) -> Any:
    """ldmatrix.x4, stmatrix.m8n8.x2.trans: as PTX orders the words."""
    from layoutlab.atoms.matrix import matrix_copy

    name, *words = [w for w in text.split(".") if w not in ("sync", "aligned", "shared", "b16")]
    counts = [int(w[1:]) for w in words if re.fullmatch(r"x\d", w)]
    shapes = [w for w in words if re.fullmatch(r"m\d+n\d+", w)]
    if len(counts) > 1 or len(shapes) > 1 or len(words) > len(counts) + len(shapes) + ("trans" in words):
        raise LayoutError(f"{text!r} names no {name}: ldmatrix.x4, stmatrix.m8n8.x2.trans")
    return matrix_copy(name, counts[0] if counts else 1, "trans" in words, *shapes)  # type: ignore[arg-type]
