"""Registers: which load brought the values that a store writes, followed through the arithmetic between them.

A store to shared memory is right only if each thread's registers hold the elements that its copy says they do. Values
come from Tensor Memory by a tiled copy, whose own thread-value layout says who gets what; between the two lie element-
wise operations on vectors, which leave every value in its place, or at least with its thread. What lets a value change
threads (a shuffle) ends the trail, and nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from layoutlab.tracing.pointers import Pointers, raw_value, same

_MOST_OPERATIONS = 2000
_OTHER_THREADS = ("shfl", "redux", "vote", "match", "inline_asm")
"""Parts of the names of operations that may bring a value from another thread."""


@dataclass
class Registers:
    """`loads`: what partition filled the registers of an allocation; `sources`: of which others they were computed."""

    pointers: Pointers
    partitions: list[tuple[Any, int]] = field(default_factory=list)
    loads: dict[int, set[int]] = field(default_factory=dict)
    sources: dict[int, set[int]] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)

    def partition(self, result: Any, access: int) -> None:
        """Remembers the tensor that a recorded partition gave."""
        value = raw_value(result)
        if value is not None:
            self.partitions.append((value, access))

    def access_of(self, tensor: Any) -> int | None:
        """The recorded access that a tensor was partitioned by; None where there is none."""
        self.pointers.place_of(tensor)
        for link in self.pointers.chain:
            for value, access in self.partitions:
                if same(value, link):
                    return access
        return None

    def loaded(self, access: int, target: Any) -> None:
        """A copy from a partition of Tensor Memory filled registers."""
        self.loads.setdefault(self._root(target), set()).add(access)

    def stored(self, target: Any, data: Any) -> None:
        """A vector of values was put into registers: its sources are the registers that it was computed from."""
        root = self._root(target)
        found, lost = self._computed_from(raw_value(data))
        self.sources.setdefault(root, set()).update(found)
        if lost:
            self.lost.add(root)

    def brought(self, tensor: Any) -> set[int]:
        """The accesses that brought what a tensor of registers holds; empty where the trail was lost."""
        seen, todo, found = set[int](), [self._root(tensor)], set[int]()
        while todo:
            root = todo.pop()
            if root in seen:
                continue
            seen.add(root)
            if root in self.lost:
                return set()
            found |= self.loads.get(root, set())
            todo += self.sources.get(root, set())
        return found

    def _root(self, tensor: Any) -> int:
        return self.pointers.place_of(tensor).root

    def _computed_from(self, value: Any) -> tuple[set[int], bool]:
        """Roots of the registers that a value was computed from, and whether another thread may have had a hand in
        it."""
        todo, seen, roots = [value], list[Any](), set[int]()
        while todo:
            value = todo.pop()
            if value is None or any(same(value, other) for other in seen):
                continue
            seen.append(value)
            owner = value.owner
            operation = getattr(owner, "operation", owner)
            name = getattr(operation, "name", "")
            if not name:
                continue  # a loop's variable: a scale, a maximum
            if len(seen) > _MOST_OPERATIONS or any(part in name for part in _OTHER_THREADS):
                return roots, True
            if "memref.load" in name:
                memory = raw_value(next(iter(operation.operands)))
                if memory is not None:
                    roots.add(self.pointers.place_of(memory).root)
                continue
            todo += [raw_value(operand) for operand in operation.operands]
        return roots, False
