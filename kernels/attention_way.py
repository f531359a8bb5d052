"""The way through the attention kernel: its declared handoffs in order, with units, tensors and buffers of one launch.

    layoutlab draw attention --element 'O[5,17]' --set seq=300 --set heads=4 --set kv_heads=2
    layoutlab draw attention -o attention.gv --set head_dim=64 --set p=smem

An element is named by its tile and two coordinates, counted from the sequence's first row on (head 0 of batch 0), or by
four, as it lies in its tensor: Q, O [batch, query, head, column], K, V [batch, key, KV head, column], and S and P
[batch, query, head, key].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from layoutlab import catalogue
from layoutlab.draw.legs import Leg, Tensor, Way
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, gmem, tma_write
from layoutlab.handoff.settings import Settings
from layoutlab.kernels import attention_handoffs as declared
from layoutlab.kernels.attention_config import (
    EPILOGUE_COLUMNS,
    ROWS,
    SLOTS,
    AttentionConfig,
    DType,
    Fault,
    PStorage,
    Route,
)
from layoutlab.kernels.attention_handoffs import HeadDim, attention_handoffs
from layoutlab.kernels.attention_host import DEFAULT_CTAS, check, dense

LOAD = ("TMA load", "cp.async.bulk.tensor.4d, warp 9")
STORE = ("TMA store", "cp.async.bulk.tensor.4d, warp 4")
QK, PV = ("the QK MMA", "tcgen05.mma.kind::f16, warp 8"), ("the PV MMA", "tcgen05.mma.kind::f16, warp 8")
SOFTMAX = ("softmax threads", "T0 to T127, warps 0 to 3")
CORRECTION = ("correction threads", "T128 to T255, warps 4 to 7")
CALLER = ("the caller",)

# What a tile's coordinates mean, as its tensor orders four of them: where each stands. None is not asked for.
NAMED = {
    "Q": ("query", "dim"), "K": ("key", "dim"), "S": ("query", "key"), "P": ("query", "key"),
    "V": ("column", "key"), "O": ("query", "column"), "C": ("query", "column"),
}  # fmt: skip
FOUR = {**{name: meanings for name, meanings in NAMED.items() if name != "V"}, "V": ("key", "column")}


def attention(
    head_dim: HeadDim = 128,
    dtype: DType = "bf16",
    p: PStorage = "tmem",
    route: Route = "vector",
    causal: bool = False,
    normalize: bool = True,
    tmem_p0_offset: int = 32,
    rescale_threshold: float = 0.0,
    fault: Fault = "none",
    batch: int = 1,
    seq: int = 128,
    kv_seq: int = 0,
    heads: int = 1,
    kv_heads: int = 0,
    ctas: int = DEFAULT_CTAS,
    kv_tile: int = 0,
) -> Launch:
    """A launch of one configuration; kv_seq=0 and kv_heads=0 are as many as seq and heads.

    kv_tile is the KV tile that is followed where an element names no key.
    """
    config = AttentionConfig(head_dim, dtype, p, route, causal, normalize, tmem_p0_offset, rescale_threshold,
                             fault=fault)  # fmt: skip
    sizes = (batch, seq, kv_seq or seq, heads, kv_heads or heads)
    if ctas < 1:
        raise LayoutError(f"ctas={ctas} is not at least 1")
    return Launch(config, *sizes, ctas, kv_tile)


@dataclass(frozen=True)
class Launch:
    """A configuration, its sizes, and which KV tile is followed."""

    config: AttentionConfig
    batch: int
    seq: int
    kv_seq: int
    heads: int
    kv_heads: int
    ctas: int
    kv_tile: int

    def __post_init__(self) -> None:
        if min(self.batch, self.seq, self.kv_seq, self.heads, self.kv_heads) < 1:
            raise LayoutError(
                f"batch={self.batch} seq={self.seq} kv_seq={self.kv_seq} heads={self.heads} "
                f"kv_heads={self.kv_heads} leave nothing to compute"
            )
        check(self.config, **dense(self.q_shape, self.k_shape, self.config.dtype))

    @cached_property
    def q_shape(self) -> tuple[int, int, int, int]:
        """Of Q and O."""
        return self.batch, self.seq, self.heads, self.config.head_dim

    @cached_property
    def k_shape(self) -> tuple[int, int, int, int]:
        """Of K and V."""
        return self.batch, self.kv_seq, self.kv_heads, self.config.head_dim

    @property
    def q_tiles(self) -> int:
        """Q tiles of one head."""
        return -(-self.seq // ROWS)

    def keys_seen(self, query: int) -> int:
        """How many keys, from the first, a row sees; the kernel masks the others."""
        if not self.config.causal:
            return self.kv_seq
        return max(0, min(self.kv_seq, query + 1 + self.kv_seq - self.seq))

    def kv_tiles(self, q_tile: int) -> int:
        """How many KV tiles a Q tile meets; one at least."""
        keys = self.keys_seen((q_tile + 1) * ROWS - 1) if self.config.causal else self.kv_seq
        return -(-max(keys, 1) // self.config.kv_tile)

    def steps_before(self, tile: int) -> int:
        """How many steps its CTA has made when it comes to a Q tile, counted over all heads and batches."""
        grid = min(self.ctas, self.q_tiles * self.heads * self.batch)
        return sum(self.kv_tiles(earlier % self.q_tiles) for earlier in range(tile % grid, tile, grid))


SETTINGS = Settings.of(attention)


@dataclass(frozen=True)
class Position:
    """Which Q tile and which KV tile an element passes through, and its coordinates there."""

    batch: int
    head: int
    kv_head: int
    q_tile: int
    kv_tile: int
    fixed: Mapping[str, int]


def attention_way(element: tuple[str, tuple[int, ...]] | None, settings: Mapping[str, Any]) -> Way:
    """The kernel's legs with these settings, and the element's place; without one, the first tiles' legs.

    >>> way = attention_way(("O", (133, 17)), {"seq": "300", "causal": "true"})
    >>> way.fixed, [leg.handoff.name for leg in way.legs][2:5]
    ({'query': 5, 'column': 17}, ['tS', 'tP', 'sV'])

    Raises LayoutError for settings that the kernel refuses and for elements that it does not compute.
    """
    made: Launch = attention(**SETTINGS.complete(settings))
    at = _position(made, *element) if element else Position(0, 0, 0, 0, 0, {})
    tile = at.q_tile + made.q_tiles * (at.head + made.heads * at.batch)
    slot = (made.steps_before(tile) + at.kv_tile) % SLOTS
    return Way(_title(made, at, tile, slot, element, settings), _legs(made, at, slot), at.fixed)


def _position(made: Launch, name: str, numbers: tuple[int, ...]) -> Position:
    """Where an element is computed."""
    if name not in NAMED:
        raise LayoutError(f"the attention kernel has no tile {name}: there are {', '.join(NAMED)}")
    whole = f"{name}[{','.join(map(str, numbers))}]"
    if len(numbers) not in (2, 4):
        raise LayoutError(f"{whole}: an element of {name} has 2 coordinates ({', '.join(NAMED[name])}), or 4 "
                          f"(batch, {FOUR[name][0]}, head, {FOUR[name][1]})")  # fmt: skip
    four = len(numbers) == 4
    batch, head = (numbers[0], numbers[2]) if four else (0, 0)
    known = dict(zip(FOUR[name], numbers[1::2], strict=True) if four else zip(NAMED[name], numbers, strict=True))
    of_kv = name in ("K", "V")
    group = made.heads // made.kv_heads
    ends = {"batch": made.batch, "head": made.kv_heads if of_kv else made.heads, "query": made.seq, "key": made.kv_seq,
            "dim": made.config.head_dim, "column": made.config.head_dim}  # fmt: skip
    for meaning, value in {"batch": batch, "head": head, **known}.items():
        if value >= ends[meaning]:
            raise LayoutError(f"{whole}: {meaning} {value}, and {name}'s {meaning} ends at {ends[meaning] - 1}")
    q_tile, query = divmod(known.get("query", 0), ROWS)
    kv_tile, key = divmod(known.get("key", made.kv_tile * made.config.kv_tile), made.config.kv_tile)
    met = made.kv_tiles(q_tile)
    if kv_tile >= met or made.kv_tile < 0:
        raise LayoutError(f"{whole}: Q tile {q_tile} meets the KV tiles 0 to {met - 1}, not {kv_tile}")
    fixed = {meaning: {"query": query, "key": key}.get(meaning, value) for meaning, value in known.items()}
    q_head = head * group if of_kv else head
    return Position(batch, q_head, q_head // group, q_tile, kv_tile, fixed)


def _title(
    made: Launch, at: Position, tile: int, slot: int, element: tuple[str, tuple[int, ...]] | None, settings: Any
) -> str:
    """The element and where it is computed; without one, the kernel and its settings."""
    if element is None:
        return " ".join(["attention", *(f"{key}={value}" for key, value in settings.items())])
    name, numbers = element
    grid = min(made.ctas, made.q_tiles * made.heads * made.batch)
    where = f"batch {at.batch}, head {at.head} (KV head {at.kv_head}), Q tile {at.q_tile}, KV tile {at.kv_tile} of "
    where += f"{made.kv_tiles(at.q_tile)} in slot {slot}, CTA {tile % grid}"
    return f"{name}[{','.join(map(str, numbers))}] ({where})"


def _legs(made: Launch, at: Position, slot: int) -> list[Leg]:
    """Every declared handoff, with its units."""
    config, bits = made.config, declared.BITS
    rows = min(ROWS, made.seq - at.q_tile * ROWS)
    query, key = at.q_tile * ROWS, at.kv_tile * config.kv_tile
    q = Tensor("Q", made.q_shape, bits, (at.batch, query, at.head, 0), {"m": 1, "k": 3})
    k = Tensor("K", made.k_shape, bits, (at.batch, key, at.kv_head, 0), {"n": 1, "k": 3})
    v = Tensor("V", made.k_shape, bits, (at.batch, key, at.kv_head, 0), {"k": 1, "n": 3})
    o = Tensor("O", made.q_shape, bits, (at.batch, query, at.head, 0), {"m": 1, "n": 3})
    found = attention_handoffs(config, slot) | _planted(config, slot)  # type: ignore[arg-type]
    found["store"] = _stored(made, at, rows, o)
    stage_bytes = ROWS * EPILOGUE_COLUMNS * bits // 8
    masked = _masked(made, at)
    extra: dict[str, dict[str, Any]] = {
        "sQ": {"writer": LOAD, "reader": QK, "source": q},
        "sK": {"writer": LOAD, "reader": QK, "source": k},
        "sV": {"writer": LOAD, "reader": PV, "source": v},
        "tS": {"writer": QK, "reader": SOFTMAX, "remark": masked},
        "tP": {"writer": SOFTMAX, "reader": PV, "remark": masked},
        "sP": {"writer": SOFTMAX, "reader": PV, "remark": masked},
        "tO": {"writer": PV, "reader": CORRECTION},
        "oRescale": {"writer": CORRECTION, "reader": PV, "remark": "where a row's maximum grew"},
        "epilogue": {"writer": CORRECTION, "reader": STORE, "buffer": "sO",
                     "again_bytes": config.epilogue_stages * stage_bytes},
        "store": {"writer": STORE, "reader": CALLER, "target": o},
    }  # fmt: skip
    order = ("sQ", "sK", "tS", "tP", "sP", "sV", "oRescale", "tO", "epilogue", "store")
    meanings = {**NAMED, "sQ": NAMED["Q"]}
    return [
        Leg(found[name], dict(zip(found[name].tile.extents, meanings[found[name].tile.name], strict=True)),
            **extra[name])
        for name in order if name in found
    ]  # fmt: skip


def _planted(config: AttentionConfig, slot: int) -> dict[str, Handoff]:
    """The handoff that the configuration's fault is of, if it is none of P's, whose own functions take theirs."""
    head_dim, kv, dtype = config.head_dim, config.kv_tile, config.dtype
    which, _, how = config.fault.partition("_")
    wrong: dict[str, Any] = {"unswizzled": {"tma_swizzle": "none"}, "steps": {"k_step": "always_32_bytes"}}.get(how, {})
    if which == "q":
        return {"sQ": catalogue.sQ(head_dim=head_dim, dtype=dtype, **wrong)}
    if which in ("k", "v"):
        made = {"k": catalogue.sK, "v": catalogue.sV}[which]
        return {f"s{which.upper()}": made(kv=kv, head_dim=head_dim, dtype=dtype, slot=slot, **wrong)}
    if which == "rescale":
        first, atom = SLOTS * kv, declared.ATOM
        wrong = {"store_column": first + head_dim} if how == "shifted" else {"store": "16x64b.x16"}
        right = {"column": first, "store_column": first, "load": atom, "store": atom,
                 "first_warp": declared.CORRECTION_WARP}  # fmt: skip
        return {"oRescale": catalogue.oRescale(head_dim=head_dim, **{**right, **wrong})}
    if config.fault in ("epilogue_unpaired", "o_unswizzled"):
        wrong = wrong or {"store_as": "16x256b.x4", "bits": 32}
        right = {"n": head_dim, "epi_n": EPILOGUE_COLUMNS, "dtype": dtype, "first_warp": declared.CORRECTION_WARP}
        return {"epilogue": catalogue.epilogue(**{**right, **wrong})}
    return {}


def _stored(made: Launch, at: Position, rows: int, o: Tensor) -> Handoff:
    """The store of the tile, which a fault of the kernel takes for one of (batch, heads, seq, head_dim)."""
    head_dim, query = made.config.head_dim, at.q_tile * ROWS
    base = o.byte((at.batch, query, at.head, 0))
    right = declared.store(head_dim=head_dim, heads=made.heads, rows=rows, base=base)
    if made.config.fault != "o_heads_first":
        return right
    row = (at.batch * made.heads + at.head) * made.seq + query
    wrong = gmem(
        f"({rows},{head_dim}):({head_dim},1)",
        over=right.tile,
        base_bytes=row * head_dim * declared.BITS // 8,
        name="gO",
    )
    writer = tma_write(wrong, box={"n": EPILOGUE_COLUMNS, "m": ROWS})
    return Handoff(right.tile, writer=writer, reader=right.reader)


def _masked(made: Launch, at: Position) -> str:
    """Which keys of the tile the row sees; nothing where it sees them all."""
    if "query" not in at.fixed:
        return ""
    query, first = at.q_tile * ROWS + at.fixed["query"], at.kv_tile * made.config.kv_tile
    last = min(made.keys_seen(query), first + made.config.kv_tile)
    if last - first == made.config.kv_tile:
        return ""
    seen = f"sees keys {first} to {last - 1}" if last > first else "sees none of these keys"
    return f"query {query} {seen}{' (causal)' if made.config.causal else ''}: P is 0 elsewhere"
