"""Template: a handoff written out as a file that can be edited and verified."""

from __future__ import annotations

from layoutlab.handoff.core import Handoff


def template(h: Handoff) -> str:
    """The handoff as a Python file with the public API, its layouts written out."""
    P, storage = h.tile.name, h.writer.storage
    tile = ", ".join(f"{axis}={extent}" for axis, extent in h.tile.extents.items())
    live = "".join(f", {way}={dict(named)!r}" for way, named in (("live", h.live), ("around", h.around)) if named)
    return f'''"""{h}, written out. Edit it, then: layoutlab verify THIS_FILE.py"""

import layoutlab as ll


@ll.handoff
def my_{h.name}():
    """{h.doc.splitlines()[0] if h.doc else "Who writes what, and who reads it."}"""
    {P} = ll.Tile("{P}", {tile}, bits={h.tile.bits})
{_owner(h)}    # ({",".join(h.tile.extents)}) -> elements; a swizzle without a unit counts bytes
    {storage.name} = {storage.code}
    writer = {h.writer.code}
    # byte addresses; a start for each K step
    reader = {h.reader.code}
    return ll.Handoff({P}, writer=writer, reader=reader{live})
'''


def _owner(h: Handoff) -> str:
    """The line that makes the owner, where threads own the elements."""
    owner = h.writer.owner
    if not owner.threaded:
        return ""
    threads, values = owner.places.axes["t"], owner.places.axes["v"]
    return f"""    # (T{threads},V{values}) -> ({",".join(h.tile.extents)})
    owner = {owner.code}
"""
