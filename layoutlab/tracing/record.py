"""Trace: what one compile said about its layouts, as texts and numbers that outlive the compiler."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from layoutlab.errors import LayoutError

if TYPE_CHECKING:
    from layoutlab.tracing.judge import Row


@dataclass(frozen=True)
class Access:
    """One use of a buffer: `role` is "writes", "reads" or "partitions"; `kind` "copy", "tma", "mma A", ...

    `tensor` is what was given, as printed, `view` the tensor it was cut from, `whole` the one that an MMA took its part
    of; `root` and `offset_bits` say where that lies, `sliced_bits` how far into it a slice starts; `texts` holds the
    layouts of who uses it (tv, tiler, by, op).
    """

    role: str
    kind: str
    call: str
    space: str
    tensor: str
    tensor_name: str
    by_name: str
    result: str
    root: int
    root_text: str
    offset_bits: int | None
    via: tuple[str, ...]
    why: str
    view: str
    texts: Mapping[str, str]
    function: str
    place: str
    whole: str = ""
    sliced_bits: int = 0

    @property
    def who(self) -> str:
        """`thr_copy.partition_D(sP)`, as the code has it."""
        by = f"{self.by_name}." if self.by_name else ""
        return f"{by}{self.call}({self.tensor_name or '...'})"


@dataclass
class Trace:
    """`accesses` in order, `names` (function, name) -> the texts that it had, `failures` what could not be recorded.

    `tma` has, for each type of TMA atom, the shared-memory layouts that such atoms were made with; `brought`
    says by which accesses (loads from Tensor Memory) the registers were filled that an access stores. `replayed` is the
    table of the kernels that were run, and None where none was asked to be.
    """

    source: str = ""
    accesses: list[Access] = field(default_factory=list)
    names: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    tma: dict[str, list[str]] = field(default_factory=dict)
    brought: dict[int, list[int]] = field(default_factory=dict)
    replayed: list[dict[str, Any]] | None = None

    def note(self, function: str, name: str, text: str) -> None:
        """Keeps a text under a name; the same one once."""
        texts = self.names.setdefault((function, name), [])
        if text not in texts:
            texts.append(text)

    @property
    def layouts(self) -> dict[str, str]:
        """Every recorded object, `function.name` -> its text; `name'` and so on where a name had several."""
        return {
            f"{function}.{name}" + "'" * i: text
            for (function, name), texts in self.names.items()
            for i, text in enumerate(texts)
        }

    def part(self, start: int, stop: int | None = None) -> Trace:
        """The trace of one kernel's compile: of the accesses from the so many-th on."""
        numbers = range(len(self.accesses))[start:stop]
        brought = {
            store - start: [load - start for load in loads if load in numbers]
            for store, loads in self.brought.items()
            if store in numbers
        }
        return Trace(self.source, self.accesses[start:stop], self.names, self.failures, self.tma, brought)

    def guarded(self) -> dict[str, str]:
        """What a golden of this trace keeps."""
        return self.layouts

    def __getitem__(self, name: str) -> str:
        """The last text of a name, given with or without its function."""
        for (function, known), texts in reversed(self.names.items()):
            if name in (known, f"{function}.{known}"):
                return texts[-1]
        raise LayoutError(f"nothing called {name} was traced")

    def json(self) -> dict[str, Any]:
        """The trace as JSON values."""
        names = [[f, n, texts] for (f, n), texts in self.names.items()]
        return {
            "trace": 1,
            "source": self.source,
            "accesses": [asdict(a) for a in self.accesses],
            "names": names,
            "failures": self.failures,
            "tma": self.tma,
            "brought": [[store, loads] for store, loads in self.brought.items()],
        } | ({} if self.replayed is None else {"replayed": self.replayed})

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Trace:
        """A trace from JSON values."""
        if value.get("trace") != 1:
            raise LayoutError('this is no trace: it has no entry "trace": 1')
        accesses = [Access(**{**a, "via": tuple(a["via"])}) for a in value["accesses"]]
        names = {(f, n): texts for f, n, texts in value["names"]}
        return cls(
            value["source"], accesses, names, list(value["failures"]), dict(value["tma"]), dict(value["brought"]),
            value.get("replayed"),
        )  # fmt: skip

    def rows(self) -> list[Row]:
        """The table: each buffer's writer and reader, with the verdict and its reason; of a run where one was made."""
        from layoutlab.tracing.judge import judge

        rows = judge(self)
        if self.replayed is None:
            return rows
        from layoutlab.tracing.table import read_rows

        seen = read_rows(self.replayed)
        told = "\n".join(row.why for row in seen)
        lost = [row for row in rows if row.verdict == "refuted" and f"{row.writer} -> {row.reader}" not in told]
        return seen + lost

    def table(self) -> str:
        """The table as text."""
        from layoutlab.tracing.judge import table

        return table(self.rows())

    def text(self) -> str:
        """The JSON text of a file."""
        return json.dumps(self.json(), indent=1)
