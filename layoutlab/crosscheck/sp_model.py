"""The model's account of one variant of the SM100 P handoff, as results of its launch bundle are judged by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from layoutlab.catalogue import named
from layoutlab.crosscheck.sp90_model import Account, Array, Variant
from layoutlab.handoff import Handoff, Tile


@dataclass(frozen=True, eq=False)
class Variant100(Variant):
    """One variant of sP, by its settings."""

    @cached_property
    def handoff(self) -> Handoff:
        """sP with these settings."""
        return named("sP")(**self.settings)

    @property
    def tile(self) -> Tile:
        """P."""
        return self.handoff.tile

    @cached_property
    def owner(self) -> Array:
        """(t, v) -> element, by the model."""
        places = self.handoff.writer.owner.places
        t, v = np.indices(tuple(places.axes.values()))
        at = places.at(t=t, v=v)
        return np.asarray(at["m"] * self.tile.shape[1] + at["k"])

    @cached_property
    def model(self) -> Account:
        """What the maps of sP say."""
        return self.account_of(self.handoff)

    def laid_out(self, held: Array) -> Array:
        """V as (kv, head_dim): as it is in memory."""
        return held.reshape(self.settings["kv"], self.settings["head_dim"])
