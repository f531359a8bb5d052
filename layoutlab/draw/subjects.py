"""Subjects: whatever a person has in hand, as a picture.

A layout, an ownership map, a tiled copy, an MMA, an instruction of Tensor Memory, a handoff or its verdict; the text that
a kernel printed; a live CuTe DSL object, by what it prints.
"""

from __future__ import annotations

from typing import Any

from layoutlab.digits import Map
from layoutlab.draw.picture import Picture
from layoutlab.draw.views import Choice, layout_picture, ownership_picture
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle


def picture_of(what: Any, choice: Choice = Choice()) -> Picture:
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
        return picture_of(_read(what), choice)
    if isinstance(what, Layout) and choice.tile:
        return ownership_picture(what, choice.tile, choice)
    if isinstance(what, (Layout, ComposedLayout)):
        return layout_picture(what, choice)
    if isinstance(what, Swizzle):
        return layout_picture(_pattern(what), choice)
    if isinstance(what, Map):
        from layoutlab.draw.instructions import map_picture

        return map_picture(what, choice)
    return _of_record(what, choice)


def _of_record(what: Any, choice: Choice) -> Picture:
    """Objects of the layers beside, whose modules are imported already where there is such an object."""
    from layoutlab.draw import instructions

    module, name = type(what).__module__, type(what).__name__
    if module.startswith("layoutlab.handoff"):
        from layoutlab.draw.handoffs import handoff_picture

        made = what() if name == "HandoffFunction" else what.make() if name == "Case" else what
        return handoff_picture(made, choice)
    drawn = {
        "TmemAtom": instructions.tmem_atom_picture,
        "MatrixCopy": instructions.matrix_copy_picture,
        "MmaAtom": instructions.mma_picture,
        "TiledCopy": instructions.tiled_copy_picture,
        "TiledMma": instructions.tiled_mma_picture,
    }
    if module.startswith("layoutlab.") and name in drawn:
        return drawn[name](what, choice)
    if module.startswith("layoutlab.text") and name == "Tensor":
        if getattr(what.iterator, "space", None) == "tmem":
            return instructions.tmem_layout_picture(what.layout, what.iterator.bits, choice, str(what))
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
    from layoutlab.text.expression import evaluate

    words = text.strip().split(".")
    if words[0] in ("ldmatrix", "stmatrix"):
        return _matrix_copy(text.strip())
    if words[0] == "tcgen05" or (words[0][:2].isdigit() and "x" in words[0] and words[0].endswith(("b", "bx2"))):
        from layoutlab.atoms.tmem import TmemAtom

        return TmemAtom.parse(text)
    try:
        return parse(text)
    except LayoutError:
        return evaluate(text)


def _matrix_copy(text: str) -> Any:
    """ldmatrix.x4, stmatrix.m8n8.x2.trans: as PTX orders the words."""
    from layoutlab.atoms.matrix import matrix_copy

    name, *words = [w for w in text.split(".") if w not in ("sync", "aligned", "shared", "b16")]
    counts = [int(w[1:]) for w in words if w[:1] == "x" and w[1:].isdigit()]
    shapes = [w for w in words if w[:1] == "m" and "n" in w]
    unknown = [w for w in words if w not in shapes and w != "trans" and not (w[:1] == "x" and w[1:].isdigit())]
    if unknown or len(counts) > 1 or len(shapes) > 1:
        raise LayoutError(f"{text!r} names no {name}: ldmatrix.x4, stmatrix.m8n8.x2.trans")
    return matrix_copy(name, counts[0] if counts else 1, "trans" in words, *shapes)  # type: ignore[arg-type]
