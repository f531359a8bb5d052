"""asynchronous: work that an instruction only starts, mbarriers, and the three ways to time its completion.

`eager` completes work where it is issued, `lazy` completes it only when no warp can go on without it, `random`
completes a random piece now and then (from a seed). A kernel that is right is right under all three; one that forgets
a wait reads poison under `lazy`. Work of one queue completes in order, work of different queues in any order.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from layoutlab.ptx.parse import Instruction, PtxError

if TYPE_CHECKING:
    from layoutlab.ptx.state import Array, Wave

SCHEDULES = ("eager", "random", "lazy")
TRANSACTION_LIMIT = (1 << 20) - 1  # range of the pending transaction count, PTX ISA 9.7.13.15


@dataclass(frozen=True)
class Task:
    """One piece of started work: `run` does it, `group` is the bulk or cp.async group that it was committed in."""

    run: Callable[[], None]
    instruction: Instruction
    number: int
    group: int


@dataclass
class Mbarrier:
    """The state that mbarrier.init sets up. A phase completes when pending arrivals and bytes are both zero."""

    address: int
    cta: int
    count: int
    pending: int
    instruction: Instruction
    transactions: int = 0
    phase: int = 0

    def passed(self, parity: int) -> bool:
        """Whether the phase of this parity has completed: the current phase is then of the other parity."""
        return (self.phase & 1) != (parity & 1)

    def describe(self) -> str:
        return (
            f"mbarrier at shared byte {self.address} of CTA {self.cta} (init at {self.instruction.where}): phase "
            f"{self.phase}, {self.pending} of {self.count} arrivals and {self.transactions} bytes pending"
        )


@dataclass
class Queue:
    tasks: deque[Task] = field(default_factory=deque)
    open_group: int = 0


class AsyncUnits:
    """The started work of a wave, by queue, and its mbarriers."""

    def __init__(self, wave: Wave, schedule: str, generator: random.Random) -> None:
        if schedule not in SCHEDULES:
            raise PtxError(f"schedule {schedule!r} is none of {', '.join(SCHEDULES)}")
        self.wave = wave
        self.eager = schedule == "eager"
        self.schedule = schedule
        self.random = generator
        self.queues: dict[Hashable, Queue] = {}
        self.pending = 0
        self.issued = 0
        self.mbarriers: dict[tuple[int, int], Mbarrier] = {}

    # -- tasks --------------------------------------------------------------------------------------------------

    def submit(self, key: Hashable, run: Callable[[], None], instruction: Instruction) -> None:
        """Start work: it is done now when eager, else it waits in its queue."""
        self.issued += 1
        if self.eager:
            run()
            return
        queue = self.queues.setdefault(key, Queue())
        queue.tasks.append(Task(run, instruction, self.issued, queue.open_group))
        self.pending += 1

    def commit_group(self, key: Hashable) -> None:
        self.queues.setdefault(key, Queue()).open_group += 1

    def wait_group(self, key: Hashable, allowed: int) -> None:
        """Complete a queue's committed groups except the latest `allowed`."""
        queue = self.queues.get(key)
        if queue is None:
            return
        while queue.tasks and queue.tasks[0].group < queue.open_group - allowed:
            self._run_first(key, queue)

    def drain(self, key: Hashable) -> None:
        queue = self.queues.get(key)
        while queue is not None and queue.tasks:
            self._run_first(key, queue)

    def drain_all(self) -> None:
        while self.step():
            pass

    def step(self) -> bool:
        """Complete one piece of work: the oldest, or at random one that leads its queue. False when none is left."""
        leading = [(queue.tasks[0].number, key) for key, queue in self.queues.items() if queue.tasks]
        if not leading:
            return False
        chosen = self.random.choice(leading) if self.schedule == "random" else min(leading, key=lambda pair: pair[0])
        key = chosen[1]
        self._run_first(key, self.queues[key])
        return True

    def maybe_step(self) -> None:
        """Under the random schedule, complete something with a probability of one half."""
        if self.pending and self.random.random() < 0.5:
            self.step()

    def _run_first(self, key: Hashable, queue: Queue) -> None:
        task = queue.tasks.popleft()
        self.pending -= 1
        if not queue.tasks and queue.open_group == 0:
            del self.queues[key]
        task.run()

    def describe(self) -> list[str]:
        """What is started and not complete, oldest first."""
        tasks = sorted((t for q in self.queues.values() for t in q.tasks), key=lambda t: t.number)
        return [f"{t.instruction.opcode} of {t.instruction.where}" for t in tasks]

    # -- mbarriers ----------------------------------------------------------------------------------------------

    def init_mbarrier(self, cta: int, address: int, count: int, instruction: Instruction) -> None:
        if not 1 <= count <= TRANSACTION_LIMIT:
            raise PtxError(f"mbarrier.init with count {count}", instruction.line)
        live = self.mbarriers.get((cta, address))
        if live is not None:  # undefined without an mbarrier.inval between, PTX ISA 9.7.13.15.9
            self.wave.services.findings.add(
                "mbarrier again",
                instruction,
                f"mbarrier.init of shared byte {address} of CTA {cta}, where the mbarrier of "
                f"{live.instruction.where} lives",
            )
        self.mbarriers[cta, address] = Mbarrier(address, cta, count, count, instruction)
        self.wave.shared.barriers[self._chunk(cta, address)] = True

    def invalidate_mbarrier(self, cta: int, address: int, instruction: Instruction) -> None:
        self.mbarrier(cta, address, instruction)
        del self.mbarriers[cta, address]
        self.wave.shared.barriers[self._chunk(cta, address)] = (cta, address ^ 8) in self.mbarriers

    def _chunk(self, cta: int, address: int) -> int:
        return (cta * self.wave.shared.stride + address) >> 4

    def note_stores(self, at: Array, size: int, instruction: Instruction) -> None:
        """Report bytes stored over a live mbarrier, which is undefined (PTX ISA 9.7.13.15.1); `at` are flat shared
        addresses of `size` bytes each, at most 16 and within 16 that are aligned."""
        if not self.mbarriers:
            return
        hit = self.wave.shared.barriers[at >> 4]
        if not np.count_nonzero(hit):
            return
        for start in np.unique(at[hit]).tolist():
            cta, low = divmod(start, self.wave.shared.stride)
            for address in range(low & ~7, low + size, 8):
                if (live := self.mbarriers.get((cta, address))) is not None:
                    self.wave.services.findings.add(
                        "mbarrier overwritten", instruction,
                        f"{instruction.opcode} to shared byte {max(low, address)} of CTA {cta}, in the mbarrier of "
                        f"{live.instruction.where}, which lives: mbarrier.inval ends it",
                    )  # fmt: skip

    def mbarrier(self, cta: int, address: int, instruction: Instruction) -> Mbarrier:
        """The mbarrier at a shared address; one that was never initialised stops the run."""
        found = self.mbarriers.get((cta, address))
        if found is None:
            raise PtxError(
                f"{instruction.opcode} on shared byte {address} of CTA {cta}, where no mbarrier was initialised",
                instruction.line,
            )
        return found

    def arrive(self, barrier: Mbarrier, count: int, instruction: Instruction) -> None:
        barrier.pending -= count
        if barrier.pending < 0:
            raise PtxError(f"more arrivals than its count: {barrier.describe()}", instruction.line)
        self._complete_phase(barrier)

    def expect(self, barrier: Mbarrier, transactions: int, instruction: Instruction) -> None:
        """Add to the bytes that the current phase waits for; a completed transfer subtracts."""
        barrier.transactions += transactions
        if abs(barrier.transactions) > TRANSACTION_LIMIT:
            raise PtxError(f"transaction count out of range: {barrier.describe()}", instruction.line)

    def complete(self, barrier: Mbarrier, transactions: int, instruction: Instruction) -> None:
        self.expect(barrier, -transactions, instruction)
        self._complete_phase(barrier)

    def _complete_phase(self, barrier: Mbarrier) -> None:
        if barrier.pending == 0 and barrier.transactions == 0:
            barrier.phase += 1
            barrier.pending = barrier.count
            self.wave.version += 1
