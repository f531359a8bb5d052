"""Who else says so: each fact of the instruction tables, and how much each independent witness was held against it.

Counts are those of the tests, which hand every one of them to `hold` with what they counted: a table that is not what
the tests did fails them.

>>> print(FACTS["cp.async"])
{'H200': 96}
"""

from __future__ import annotations

WITNESSES = ("H200", "CuTe DSL", "CUTLASS C++", "Triton", "tensor-layouts")
"""An H200's silicon and what a program that includes CUTLASS's headers printed (both recorded); CuTe DSL 4.8.1, Triton
3.9.0, tensor-layouts 0.3.2 (where the tests run)."""

FACTS: dict[str, dict[str, int]] = {
    "swizzled shared memory, written": {"H200": 15, "Triton": 46},
    "matrix descriptor, addresses read": {"H200": 122, "CuTe DSL": 124, "CUTLASS C++": 58},
    "matrix descriptor, 6-bit elements padded": {"CUTLASS C++": 16},
    "instruction descriptor": {"CuTe DSL": 416},
    "tcgen05.ld, st": {"CuTe DSL": 222, "CUTLASS C++": 148, "Triton": 58},
    "tcgen05.cp, lines to lanes": {"CuTe DSL": 5, "CUTLASS C++": 6},
    "tcgen05.mma, D in Tensor Memory": {"CuTe DSL": 200, "CUTLASS C++": 32, "Triton": 10},
    "tcgen05.mma, A in Tensor Memory": {"CuTe DSL": 100, "CUTLASS C++": 12},
    "tcgen05.mma.ws, D in Tensor Memory": {"CUTLASS C++": 18},
    "scale factors in shared memory": {"CuTe DSL": 12},
    "scale factors in Tensor Memory": {"CuTe DSL": 24, "Triton": 12},
    "mma.sync": {"H200": 25, "CuTe DSL": 10, "tensor-layouts": 24},
    "wgmma": {"H200": 119, "CuTe DSL": 88, "tensor-layouts": 8},
    "ldmatrix, stmatrix": {"H200": 12, "CuTe DSL": 23, "tensor-layouts": 12},
    "TMA boxes": {"H200": 140},
    "TMA, what the driver refuses": {"H200": 33},
    "cp.async": {"H200": 96},
    "copy atoms": {"CuTe DSL": 362},
    "tiled copies": {"CuTe DSL": 308},
    "tiled copies, swizzled": {"CuTe DSL": 132},
    "Tensor Memory copies": {"CuTe DSL": 558},
    "stores of an epilogue": {"CuTe DSL": 278},
    "tiled MMAs": {"CuTe DSL": 601},
    "fragments": {"CuTe DSL": 168},
    "staged operands": {"CuTe DSL": 36},
    "copies of operands, retile": {"CuTe DSL": 576},
    "tcgen05.ld, st over an accumulator": {"CuTe DSL": 116},
    "operands as descriptors": {"CuTe DSL": 501},
    "copies into Tensor Memory": {"CuTe DSL": 758},
    "operands that TMA loads": {"CuTe DSL": 60},
    "staging of an epilogue": {"CuTe DSL": 12},
    "shared-memory wavefronts": {"H200": 2241},
    "P handed over on SM90": {"H200": 254},
    "P's stores on SM90, wavefronts": {"H200": 56},
    "crosscheck of sP90 and rs_reuse, whole": {"H200": 230},
}
"""fact -> witness -> cases compared, all of which agree."""

DISAGREEMENTS: dict[tuple[str, str], str] = {
    ("mma.sync", "tensor-layouts"): "its B of m16n8k32.s4 maps 256 values to 160 places; the H200 multiplied by ours",
}
"""(fact, witness) -> what the witness says otherwise."""

UNWITNESSED = (
    "base offsets of sm_100",
    "how 4- and 6-bit elements are packed inside of 16 padded bytes",
)
"""Facts that rest on the PTX ISA's text alone: nothing here says them a second time."""


def hold(fact: str, witness: str, count: int) -> None:
    """Refuses a count that the table does not have: called by the tests with what they compared.

    >>> hold("cp.async", "H200", 95)
    Traceback (most recent call last):
    AssertionError: cp.async, H200: 95 cases agree, the table says 96
    """
    said = FACTS[fact].get(witness, 0)
    if said != count:
        raise AssertionError(f"{fact}, {witness}: {count} cases agree, the table says {said}")


def table() -> str:
    """The matrix as text: a line a fact, a column a witness, `-` where a witness was not asked.

    >>> table().splitlines()[0].split()
    ['fact', 'H200', 'CuTe', 'DSL', 'CUTLASS', 'C++', 'Triton', 'tensor-layouts']
    """
    width = max(map(len, FACTS)) + 2
    lines = [f"{'fact':{width}}" + "  ".join(f"{w:>{len(w)}}" for w in WITNESSES)]
    for fact, counts in FACTS.items():
        cells = [str(counts[w]) if w in counts else "-" for w in WITNESSES]
        marks = ["*" if (fact, w) in DISAGREEMENTS else "" for w in WITNESSES]
        lines.append(
            f"{fact:{width}}" + "  ".join(f"{c + m:>{len(w)}}" for c, m, w in zip(cells, marks, WITNESSES, strict=True))
        )
    lines += [f"* {what}" for what in DISAGREEMENTS.values()]
    lines += [f"by documents alone: {fact}" for fact in UNWITNESSED]
    return "\n".join(lines)
