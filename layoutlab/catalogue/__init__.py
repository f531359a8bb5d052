"""The named handoffs, each written with the API that a user's own file has.

>>> from layoutlab.handoff import verify
>>> verify(named("sP")(kv=64)).proved
True
"""

from __future__ import annotations

from layoutlab.catalogue.epilogue import epilogue
from layoutlab.catalogue.ldsm import ldsm
from layoutlab.catalogue.o_store import store
from layoutlab.catalogue.orescale import oRescale
from layoutlab.catalogue.rs_reuse import rs_reuse
from layoutlab.catalogue.sk import sK
from layoutlab.catalogue.sp import sP
from layoutlab.catalogue.sp90 import sP90
from layoutlab.catalogue.sq import sQ
from layoutlab.catalogue.sv import sV
from layoutlab.catalogue.tp import tP
from layoutlab.errors import LayoutError
from layoutlab.handoff.core import Handoff, HandoffFunction
from layoutlab.handoff.settings import nearest

__all__ = [
    "CATALOGUE",
    "epilogue",
    "ldsm",
    "named",
    "oRescale",
    "rs_reuse",
    "sK",
    "sP",
    "sP90",
    "sQ",
    "sV",
    "store",
    "tP",
]

CATALOGUE: dict[str, HandoffFunction] = {
    function.__name__: function for function in (sP, tP, sQ, sK, sV, oRescale, epilogue, store, ldsm, rs_reuse, sP90)
}


def named(name: str) -> HandoffFunction:
    """The handoff of that name; refuses another one with the nearest that there is."""
    if name not in CATALOGUE:
        raise LayoutError(
            f"no handoff is called {name}{nearest(name, list(CATALOGUE))} (there are: {', '.join(CATALOGUE)})"
        )
    return CATALOGUE[name]


def of_catalogue(h: Handoff) -> bool:
    """Whether one of these functions made the handoff; a user's own of the same name is another.

    >>> of_catalogue(named("sP")(kv=64))
    True
    """
    return h.name in CATALOGUE and h.settings is CATALOGUE[h.name].settings
