"""Fragments of mma.sync, wgmma, ldmatrix and stmatrix against silicon, CuTe DSL and tensor-layouts."""

from __future__ import annotations

import doctest
from itertools import product

import numpy as np
import pytest
import tensor_layouts.atoms_nv as theirs
from tensor_layouts import size

import layoutlab.atoms.matrix
import layoutlab.atoms.mma
from layoutlab.atoms.descriptors import SmemDescriptor
from layoutlab.atoms.matrix import matrix_copy
from layoutlab.atoms.mma import BITS, mma_atoms, mma_sync, wgmma
from layoutlab.errors import LayoutError
from layoutlab.witnesses import hold
from tests.oracles import dsl
from tests.silicon import elements, head, records


@pytest.mark.parametrize("module", [layoutlab.atoms.mma, layoutlab.atoms.matrix], ids=lambda m: m.__name__)
def test_doctests(module):
    result = doctest.testmod(module)
    assert result.attempted >= 6 and result.failed == 0


def table(layout):
    """All values as [threads, values]."""
    threads, values = (int(layout[i].size()) for i in (0, 1))
    t, v = np.indices((threads, values))
    return layout(t + threads * v)


def gathered(values, layout, rows, columns):
    """The matrix whose fragment `values` is."""
    index, out = table(layout), np.full(rows * columns, np.nan)
    assert index.shape == values.shape, (index.shape, values.shape)
    out[index] = values
    assert not np.isnan(out).any(), "a fragment does not cover its matrix"
    return out.reshape(columns, rows).T


# -- silicon ----------------------------------------------------------------------------------------------------------


def product_of(atom, facts, arrays):
    """A B^T + C by the atom's fragments, and D as the device left it."""
    m, n, k = atom.shape
    A = gathered(elements(arrays["A"], facts["ab"]), atom.a, m, k)
    B = gathered(elements(arrays["B"], facts["ab"]), atom.b, n, k)
    C, D = (gathered(elements(arrays[name], facts["cd"]), atom.c, m, n) for name in ("C", "D"))
    return A @ B.T + C, D


def test_mma_sync_on_silicon():
    seen = set()
    for name, facts, arrays in records("mma"):
        atom = mma_sync(*(facts[x] for x in "mnk"), facts["ab"], facts["cd"])
        expected, D = product_of(atom, facts, arrays)
        assert np.array_equal(expected, D), name
        seen.add((atom.shape, facts["ab"], facts["cd"]))
    hold("mma.sync", "H200", len(seen))
    twins = {"u8": "s8", "u4": "s4"}  # the same fragments by the ISA
    assert {(a.shape, twins.get(a.ab, a.ab), a.cd) for a in mma_atoms()} == seen


def test_silicon_tells_a_wrong_fragment():
    """Rows of A swapped, or k dealt out to the threads in another order, and the products differ."""
    from dataclasses import replace

    from layoutlab.layout import Layout

    _, facts, arrays = next(r for r in records("mma") if r[0] == "mma/m16n8k16.f32.f16")
    atom = mma_sync(16, 8, 16, "f16", "f32")
    for fault in ("((4,8),(2,2,2)):((32,1),(16,128,8))", "((4,8),(2,2,2)):((32,2),(16,1,128))"):
        shape, stride = (eval(x) for x in fault.split(":"))
        expected, D = product_of(replace(atom, a=Layout(shape, stride)), facts, arrays)
        assert not np.array_equal(expected, D)


def read_operand(fields, image, rows, k, kind, mn):
    desc = SmemDescriptor.decode(fields["word"] + (head()["smem_base"] >> 4), "sm_90")
    at = desc.addresses(rows, k, BITS[kind], "MN" if mn else "K") - head()["smem_base"]
    return elements(image, kind)[at * 8 // BITS[kind]]


def test_wgmma_on_silicon():
    """A from registers and by descriptor, both majors, every swizzle, 8- to 32-bit types."""
    seen = {"rs": 0, "ss": 0}
    for name, facts, arrays in records("wgmma"):
        n, k, ab, cd = (facts[x] for x in ("n", "k", "ab", "cd"))
        atom = wgmma(n, ab, cd, "registers" if facts["rs"] else "smem")
        assert atom.shape == (64, n, k)
        if facts["rs"]:
            A = gathered(elements(arrays["A"], ab), atom.a, 64, k)
        else:
            A = read_operand(facts["a"], arrays["image"], 64, k, ab, facts["mn_a"])
        B = read_operand(facts["b"], arrays["image"], n, k, ab, facts["mn_b"])
        D = gathered(elements(arrays["D"], cd), atom.c, 64, n)
        assert np.array_equal(A @ B.T, D), name
        seen["rs" if facts["rs"] else "ss"] += 1
    hold("wgmma", "H200", seen["rs"] + seen["ss"])
    assert min(seen.values()) > 50


def matrices(copy, rows_at, image):
    """The 16-bit elements that an instruction addresses, by element number."""
    lanes = copy.count * 8
    rows = np.stack([image.view(np.uint16)[a // 2 : a // 2 + 8] for a in rows_at[:lanes]])
    return rows.ravel()


def test_ldmatrix_and_stmatrix_on_silicon():
    seen = 0
    for which, count, trans in product(("ldmatrix", "stmatrix"), (1, 2, 4), (False, True)):
        seen += 1
        copy = matrix_copy(which, count, trans)
        (_, _, arrays) = next(r for r in records(which) if (r[1]["x"], r[1]["trans"]) == (count, trans))
        # Row t of the instruction is element 8 t on: the address map.
        assert np.array_equal(table(copy.rows)[: 8 * count, 0], 8 * np.arange(8 * count))
        if which == "ldmatrix":
            loaded = matrices(copy, arrays["address"], arrays["image"])[table(copy.registers)]
            assert np.array_equal(loaded, arrays["loaded"].view(np.uint16))
        else:
            expected = arrays["image"].view(np.uint16).copy()
            flat = np.empty(64 * count, np.uint16)
            flat[table(copy.registers)] = arrays["registers"].view(np.uint16)
            for t, address in enumerate(arrays["address"][: 8 * count]):
                expected[address // 2 : address // 2 + 8] = flat[8 * t : 8 * t + 8]
            assert np.array_equal(expected, arrays["stored"].view(np.uint16))
            assert not np.array_equal(arrays["image"], arrays["stored"])
    hold("ldmatrix, stmatrix", "H200", seen)


# -- other authors ----------------------------------------------------------------------------------------------------

TYPE_NAMES = {kind: kind.upper() for kind in BITS if kind[0] != "u"} | {"b1": "U1"}


def test_tensor_layouts_agrees_on_mma_sync():
    """On every atom but one operand, which maps 256 values to 160 places; the device multiplied by ours."""
    seen, different = 0, []
    for atom in mma_atoms():
        if atom.ab not in TYPE_NAMES:
            continue
        m, n, k = atom.shape
        types = TYPE_NAMES[atom.cd] + 2 * TYPE_NAMES[atom.ab] + TYPE_NAMES[atom.cd]
        archs, tails = ("SM80", "SM89", "SM90"), ("", "_XORPOPC")
        names = [f"{arch}_{m}x{n}x{k}_{types}_TN{tail}" for arch in archs for tail in tails]
        other = next(getattr(theirs, name) for name in names if hasattr(theirs, name))
        for operand in "abc":
            flat = [getattr(other, f"{operand}_layout")(i) for i in range(size(getattr(other, f"{operand}_layout")))]
            if not np.array_equal(table(getattr(atom, operand)).T.ravel(), flat):
                different.append((atom.shape, atom.ab, operand, len(set(flat)), len(flat)))
        seen += 1
    hold("mma.sync", "tensor-layouts", seen - len(different))
    assert different == [((16, 8, 32), "s4", "b", 160, 256)]


def test_tensor_layouts_agrees_on_wgmma():
    seen = 0
    cases = [(8, "f16", "f16"), (24, "f16", "f16"), (64, "f16", "f32"), (256, "bf16", "f32"), (128, "tf32", "f32")]
    for n, ab, cd in [*cases, (64, "s8", "s32"), (128, "e4m3", "f32"), (256, "e5m2", "f16")]:
        atom = wgmma(n, ab, cd)
        m, _, k = atom.shape
        other = getattr(theirs, f"SM90_{m}x{n}x{k}_{TYPE_NAMES[cd]}{TYPE_NAMES[ab]}{TYPE_NAMES[ab]}_SS").c_layout
        assert np.array_equal(table(atom.c).T.ravel(), [other(i) for i in range(size(other))])
        seen += 1
    hold("wgmma", "tensor-layouts", seen)


DSL_TYPES = {"Float16": "f16", "BFloat16": "bf16", "TFloat32": "tf32", "Float8E4M3FN": "e4m3", "Float8E5M2": "e5m2",
             "Float32": "f32", "E4M3": "e4m3", "I8": "s8"}  # fmt: skip


def test_dsl_agrees_on_mma_sync():
    seen = 0
    for fact in dsl.facts("warp_mmas", "sm_100a"):
        _, *types = fact["name"].split(".")
        m, n, k = eval(fact["shape"])
        ab, cd = DSL_TYPES[types[0]], DSL_TYPES[types[1]] if len(types) > 1 else "f32"
        atom = mma_sync(m, n, k, ab, cd)
        for mine, text in ((atom.a, fact["a"]), (atom.b, fact["b"]), (atom.c, fact["c"])):
            assert np.array_equal(table(mine), table(dsl.layout(text))), fact
        seen += 1
    hold("mma.sync", "CuTe DSL", seen)


def test_dsl_agrees_on_wgmma():
    seen = refused = 0
    for fact in dsl.facts("wgmmas", "sm_90a"):
        n, *types, source = fact["name"].split(".")
        ab, cd = DSL_TYPES[types[0]], {"E4M3": "f32", "I8": "s32"}.get(types[0]) or DSL_TYPES[types[1]]
        a_from = {"RMEM": "registers", "SMEM": "smem"}[source]
        if fact["kind"] == "refused":
            with pytest.raises(LayoutError, match="no N of 40 for s8"):
                wgmma(int(n[1:]), ab, cd, a_from)
            refused += 1
            continue
        atom = wgmma(int(n[1:]), ab, cd, a_from)
        for mine, text in ((atom.a, fact["a"]), (atom.b, fact["b"]), (atom.c, fact["c"])):
            assert np.array_equal(table(mine), table(dsl.layout(text))), fact
        seen += 1
    hold("wgmma", "CuTe DSL", seen)
    assert refused == 2


def test_dsl_agrees_on_ldmatrix_and_stmatrix():
    shapes = {
        "ldmatrix": "m8n8",
        "stmatrix": "m8n8",
        "ldmatrix.m16n16": "m16n16",
        "ldmatrix.m8n16": "m8n16",
        "stmatrix.m16n8": "m16n8",
    }
    seen = 0
    for fact in dsl.facts("copies", "sm_100a"):
        if fact["kind"] not in shapes:
            continue
        shape, instruction = shapes[fact["kind"]], fact["kind"].split(".")[0]
        count, trans = int(fact["name"][1]), ".trans" in fact["name"] or shape in ("m16n16", "m16n8")
        copy = matrix_copy(instruction, count, trans, shape)
        rows, registers = (fact["src"], fact["dst"])[:: 1 if instruction == "ldmatrix" else -1]
        assert np.array_equal(table(copy.rows), table(dsl.layout(rows))), fact
        assert np.array_equal(table(copy.registers), table(dsl.layout(registers))), fact
        seen += 1
    hold("ldmatrix, stmatrix", "CuTe DSL", seen)


def test_tensor_layouts_agrees_on_ldmatrix_and_stmatrix():
    seen = 0
    for which, prefix in (("ldmatrix", "SM75"), ("stmatrix", "SM90")):
        for count, trans in product((1, 2, 4), (False, True)):
            kind = f"U16x{2 * count}_{which[:2].upper()}SM_T" if trans else f"U32x{count}_{which[:2].upper()}SM_N"
            other, copy = getattr(theirs, f"{prefix}_{kind}"), matrix_copy(which, count, trans)
            sides = (other.src_layout_bits, other.dst_layout_bits)[:: 1 if which == "ldmatrix" else -1]
            for mine, bits in zip((copy.rows, copy.registers), sides, strict=True):
                flat = np.array([bits(i) for i in range(size(bits))]).reshape(-1, 32).T  # (thread, bit)
                assert np.array_equal(table(mine) * 16, flat[:, ::16]), copy
            seen += 1
    hold("ldmatrix, stmatrix", "tensor-layouts", seen)


@pytest.mark.parametrize(
    "call, why",
    [
        (lambda: mma_sync(16, 8, 16, "f64", "f32"), "into f64"),
        (lambda: mma_sync(16, 8, 16, "fp4", "f32"), "the types are"),
        (lambda: wgmma(12, "f16", "f32"), "no N of 12"),
        (lambda: wgmma(264, "f16", "f32"), "no N of 264"),
        (lambda: wgmma(64, "f64", "f64"), "wgmma has no f64"),
        (lambda: wgmma(64, "bf16", "f16"), "not into f16"),
        (lambda: matrix_copy("ldmatrix", 4, True, "m16n16"), "1, 2 matrices|1 or 2"),
    ],
)
def test_refusals(call, why):
    with pytest.raises(LayoutError, match=why):
        call()
