"""The model's account of one variant of the SM90 P handoff: which element lies where, and which is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.atoms.mma import wgmma
from layoutlab.catalogue import named
from layoutlab.catalogue.sp import ROWS
from layoutlab.crosscheck.tags import UNWRITTEN, numeric
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Tile, wgmma_c

Array = NDArray[Any]

SPAN_BYTES = 128  # what a swizzle moves 16 bytes inside of: the image is whole spans


@dataclass(frozen=True, eq=False)
class Account:
    """What lies where and what is read: element numbers m * kv + k, UNWRITTEN where there is none.

    `image` has an entry for each element-wide place of sP's buffer, `seen` one for each (m, k): what the tensor core
    takes for A there, UNWRITTEN all along a row that reads what nobody wrote.
    """

    image: Array
    seen: Array


@dataclass(frozen=True, eq=False)
class Variant:
    """One variant, by the kernel's settings; the store `registers` is none of sP90's, and has a model here."""

    settings: Mapping[str, Any]

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of P and V."""
        return int(np.dtype(numeric(self.settings["dtype"])).itemsize)

    @property
    def image_bytes(self) -> int:
        """The buffer from 1024-byte aligned on: base and P, in whole spans."""
        end = int(self.settings["base"]) + self.tile.size * self.element_bytes
        return -(-end // SPAN_BYTES) * SPAN_BYTES

    @property
    def tile(self) -> Tile:
        """P."""
        return Tile("P", m=ROWS, k=self.settings["kv"], bits=8 * self.element_bytes)

    @cached_property
    def owner(self) -> Array:
        """(t, v) -> element, by the model."""
        axes = wgmma_c(self.settings["dtype"]).over(self.tile).places
        t, v = np.indices(tuple(axes.axes.values()))
        at = axes.at(t=t, v=v)
        return np.asarray(at["m"] * self.tile.shape[1] + at["k"])

    @cached_property
    def model(self) -> Account:
        """What the maps of sP90 say, or, for `registers`, those of the two fragments."""
        image = np.full(self.image_bytes // self.element_bytes, UNWRITTEN, np.int64)
        if self.settings["store"] == "registers":
            return Account(image, self._as_registers())
        return self.account_of(named("sP90")(**self.settings))

    def account_of(self, handoff: Handoff) -> Account:
        """What the maps of a handoff say: the image after its writer, and what its reader takes from it.

        Raises LayoutError where the writer leaves the image or puts two elements to one place.
        """
        image = np.full(self.image_bytes // self.element_bytes, UNWRITTEN, np.int64)
        t, v = np.indices(self.owner.shape)
        bits = np.asarray(handoff.writer.write.at(t=t, v=v)["bit"])
        places = bits // self.tile.bits
        if (bits % self.tile.bits).any() or places.min() < 0 or places.max() >= image.size:
            raise LayoutError("the model writes outside of the image: such a variant is not judged by its image")
        if np.unique(places).size != places.size:
            raise LayoutError("the model writes two elements to one place: which stays is the hardware's choice")
        image[places] = self.owner
        m, k = np.indices(self.tile.shape)
        seen = image[np.asarray(handoff.reader.read.at(m=m, k=k)["bit"]) // self.tile.bits]
        return Account(image, lost_rows(seen))

    def _as_registers(self) -> Array:
        """A[m, k] is what lies in the register that A's fragment has for it: (t, v) by A's map, the element by C's."""
        rows, kv = self.tile.shape
        step = 256 // self.tile.bits  # k of an instruction
        a = np.asarray(wgmma(64, self.settings["dtype"], "f32", a_from="registers").a(np.arange(64 * step)))
        seen = np.full((rows, kv), UNWRITTEN, np.int64)
        count = 64 * step // 128  # values of a thread for one instruction
        t, v = np.divmod(np.arange(128 * count), count)
        place = a[t + 128 * v]  # m + 64 k
        for group in range(rows // 64):
            for i in range(kv // step):
                seen[place % 64 + 64 * group, place // 64 + step * i] = self.owner[t + 128 * group, v + count * i]
        return seen

    def expected_product(self, S: bytes, V: bytes) -> Array:
        """A V in float64, A being what is read of the P that these inputs make."""
        dtype = np.dtype(numeric(self.settings["dtype"]))
        P = np.frombuffer(S, np.float32).astype(dtype).astype(np.float64)
        seen = self.model.seen
        A = np.where(seen == UNWRITTEN, np.nan, P[np.maximum(seen, 0)])
        return np.asarray(A @ self.laid_out(np.frombuffer(V, dtype).astype(np.float64)))

    def laid_out(self, held: Array) -> Array:
        """V as (kv, head_dim): as it is in memory, or for 8-bit types its transpose."""
        kv, head_dim = self.settings["kv"], self.settings["head_dim"]
        return held.reshape(kv, head_dim) if self.element_bytes == 2 else held.reshape(head_dim, kv).T

    def expected_image(self, S: bytes) -> bytes:
        """The bytes of the image, poison where nothing is written."""
        word = np.dtype(f"u{self.element_bytes}")
        bits = np.frombuffer(S, np.float32).astype(np.dtype(numeric(self.settings["dtype"]))).view(word)
        image = self.model.image
        return np.where(image == UNWRITTEN, np.array(np.iinfo(word).max), bits[image]).astype(word).tobytes()


def lost_rows(seen: Array) -> Array:
    """`seen` with every row that reads what nobody wrote lost: a NaN in a row of A is in all of O's."""
    return np.where((seen == UNWRITTEN).any(axis=1, keepdims=True), UNWRITTEN, seen)
