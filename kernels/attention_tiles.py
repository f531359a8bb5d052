"""How the warps of the attention kernel meet: the mbarriers, the slots that they guard, and the Q tiles of a CTA."""

from __future__ import annotations

from dataclasses import dataclass

import cutlass
import cutlass.cute as cute
from cutlass import Int32, Int64, const_expr, range_constexpr
from cutlass.memory import SmemAllocator

from layoutlab.kernels.attention_config import ROWS, SLOTS, AttentionConfig


@dataclass(frozen=True)
class Barriers:
    """The mbarriers, each a pointer to as many as its comment says."""

    q_full: cute.Pointer  # 1: Q has landed
    k_full: cute.Pointer  # 2: K has landed
    v_full: cute.Pointer  # 2: V has landed
    qk_done: cute.Pointer  # 2: S is in TMEM, and K is free
    scale_full: cute.Pointer  # 2: the factors by which O must be rescaled are in sScale; none for a tile's first step
    p_full: cute.Pointer  # 2: S has been read and P written
    o_ready: cute.Pointer  # 1: O is rescaled for the step, or at a tile's first step, free
    pv_done: cute.Pointer  # 2: O holds the step, and V and P are free
    sum_full: cute.Pointer  # 2: the row sums are in sSum


BARRIER_SLOTS = {"q_full": 1, "o_ready": 1}  # the others have SLOTS
BARRIER_ARRIVALS = {"scale_full": ROWS, "p_full": ROWS, "o_ready": ROWS, "sum_full": ROWS}  # the others have 1


@dataclass(frozen=True)
class Problem:
    """What one launch computes, and how the CTAs share it."""

    seq_q: Int32
    seq_kv: Int32
    heads: Int32
    group: Int32  # Q heads that share a KV head
    q_tiles: Int32
    tiles: Int32  # over all heads and batches


@dataclass(frozen=True)
class QTile:
    """One Q tile: where it lies and how many KV tiles it meets."""

    index: Int32  # along the queries
    head: Int32
    batch: Int32
    kv_tiles: Int32


@cute.jit
def q_tile(config: AttentionConfig, problem: Problem, tile: Int32) -> QTile:
    """The Q tile of this number, queries fastest, then heads.

    A causal row i sees keys up to i + seq_kv - seq_q. One KV tile at least is taken, masked if it must be, so that O
    holds zeros where nothing is seen.
    """
    index = tile % problem.q_tiles
    keys = problem.seq_kv
    if const_expr(config.causal):
        keys = cutlass.min(keys, (index + 1) * ROWS + problem.seq_kv - problem.seq_q)
    kv_tiles = cute.ceil_div(cutlass.max(keys, 1), config.kv_tile)
    rest = tile // problem.q_tiles
    return QTile(index, rest % problem.heads, rest // problem.heads, kv_tiles)


def visible_keys(config: AttentionConfig, problem: Problem, row: Int32) -> Int32:
    """How many keys, from the first, a row sees; none where it is not positive."""
    if not config.causal:
        return problem.seq_kv
    return cutlass.min(problem.seq_kv, row + 1 + problem.seq_kv - problem.seq_q)


def make_barriers(smem: SmemAllocator) -> Barriers:
    """Takes shared memory for the mbarriers."""
    names = Barriers.__annotations__
    return Barriers(
        **{name: smem.allocate_array(Int64, BARRIER_SLOTS.get(name, SLOTS), byte_alignment=8) for name in names}
    )


@cute.jit
def start_barriers(barriers: Barriers):
    """Sets each mbarrier to the arrivals that complete one phase."""
    with cute.arch.elect_one():
        for name in Barriers.__annotations__:
            for slot in range_constexpr(BARRIER_SLOTS.get(name, SLOTS)):
                cute.arch.mbarrier_init(getattr(barriers, name) + slot, BARRIER_ARRIVALS.get(name, 1))


def wait_slot(barrier: cute.Pointer, step: Int32) -> None:
    """Waits until the step's use of its slot is complete."""
    cute.arch.mbarrier_wait(barrier + step % SLOTS, step // SLOTS % 2)


def factor_number(step: Int32, done: Int32) -> Int32:
    """Which use of sScale a step makes after `done` tiles: a tile's first step makes none.

    O is free for that step before its factors are there, so if it had any, nothing would keep the softmax warps from
    completing the slot's next phase too while the correction warps still store the tile before, and these would then
    wait for a parity that has come and gone.
    """
    return step - done - 1


@cute.jit
def expect(barrier: cute.Pointer, size: int):
    """Announces the bytes that a TMA load will bring, and arrives."""
    with cute.arch.elect_one():
        cute.arch.mbarrier_arrive_and_expect_tx(barrier, size)
