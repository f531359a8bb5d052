"""What `derive` prints, pasted: executed in CuTe DSL, compiled, replayed, and held against the reader's map."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pasted import fetched_registers, loaded_image, module_of, sent_tensor, shared_image, tensor_image

import layoutlab as ll
from layoutlab.algebra import composition
from layoutlab.catalogue import CATALOGUE
from layoutlab.derive import Derived, derive
from layoutlab.derive.code import identifier
from layoutlab.derive.free import free_storage
from layoutlab.derive.free_report import report as free_report
from layoutlab.derive.report import report
from layoutlab.handoff import Handoff
from layoutlab.handoff.storage import Smem
from layoutlab.layout import make_layout


def owned_tags(h: Handoff) -> tuple[Any, Any]:
    """[t, v] -> the element's number, and its coordinates."""
    axes = h.writer.owner.places.axes
    t, v = np.meshgrid(np.arange(axes["t"]), np.arange(axes["v"]), indexing="ij")
    where = h.writer.owner.places.at(t=t, v=v)
    return numbered(h, where), where


def numbered(h: Handoff, where: dict[str, Any], by: int = 0) -> Any:
    """An element's number, of which narrow types hold a part: `by` says which."""
    total, weight = 0, 1
    for axis, extent in h.tile.extents.items():
        total, weight = total + where[axis] * weight, weight * extent
    return total >> 7 * by & 0x7F if h.tile.bits == 8 else total & 0x7FFF if h.tile.bits == 16 else total


def parts(h: Handoff) -> range:
    """Narrow types hold an element's number in two parts."""
    return range(2) if h.tile.bits == 8 else range(1)


def all_coordinates(h: Handoff) -> dict[str, Any]:
    grids = np.meshgrid(*(np.arange(e) for e in h.tile.extents.values()), indexing="ij")
    return dict(zip(h.tile.extents, grids, strict=True))


def misplaced(h: Handoff, storage: Any, store: Any) -> tuple[int, set[str]]:
    """How many elements do not lie where the reader reads them, after the pasted store ran; and what stored them."""
    every, found, opcodes = all_coordinates(h), 0, set[str]()
    _, where = owned_tags(h)
    at = h.reader.read.at(**every)["bit"] // h.tile.bits
    assert isinstance(storage, Smem)
    for part in parts(h):
        tags = numbered(h, where, part)
        image, used = shared_image(store, tags, h.tile.bits, storage.bytes + 1024, storage.base_bytes)
        found += int((image[at] != numbered(h, every, part)).sum())
        opcodes |= used
    return found, opcodes


SHARED: list[tuple[str, dict[str, Any]]] = [
    *[("sP", {"kv": kv, "load": load}) for kv in (64, 128, 256) for load in ("x16", "x32")],
    *[("sP", {"dtype": dtype, "kv": kv}) for dtype in ("f16", "e4m3") for kv in (64, 128)],
    ("sP", {"base": 16}),
    ("sP", {"base": 4224, "kv": 64}),
    ("sP90", {}),
    ("sP90", {"dtype": "e4m3", "kv": 64}),
    ("epilogue", {"n": 96}),
    ("epilogue", {"n": 128, "load": "16x256b.x4"}),
    ("epilogue", {"n": 64, "load": "16x256b.x2", "dtype": "f32"}),
    ("ldsm", {"operand": "A"}),
    ("ldsm", {"operand": "B", "k": 32}),
    ("ldsm", {"operand": "B_trans"}),
]


def derived(name: str, settings: dict[str, Any], tmp_path: Path) -> tuple[Derived, Any]:
    return pasted_of(CATALOGUE[name](**settings), tmp_path)


def pasted_of(h: Handoff, tmp_path: Path) -> tuple[Derived, Any]:
    found = derive(h)
    assert found.verdict == "derived", found.refusals
    return found, module_of(report(found), tmp_path)


def hold_stores(found: Derived, pasted: Any, copies: list[str] | None = None) -> None:
    """Each form of a store to shared memory, run, and the tiled copies that the DSL made of them, held against the
    reader."""
    for piece in found.pieces:
        kind = {"cotiled_copy": "copy"}.get(piece.form, piece.form)
        wrong, opcodes = misplaced(
            found.handoff,
            piece.handoff.writer.storage,
            getattr(pasted, f"store_{identifier(found.handoff.tile.name)}_by_{kind}"),
        )
        assert wrong == 0, (piece.form, wrong)
        if piece.form == "stmatrix":
            count = piece.facts["instruction"].split(".")[1]
            assert any(op.startswith(f"stmatrix.sync.aligned.m8n8.{count}") for op in opcodes)
            assert any(".trans" in op for op in opcodes) == piece.facts["instruction"].endswith(".trans")
        if piece.form == "cotiled_copy" and piece.facts["bits"] == 128:
            assert opcodes & {"st.shared.v4.b32", "st.shared.v2.b64"}  # 16 bytes at a time


@pytest.mark.parametrize(("name", "settings"), SHARED, ids=str)
def test_pasted_stores_put_every_element_where_it_is_read(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    found, pasted = derived(name, settings, tmp_path)
    assert len(found.pieces) >= 2
    hold_stores(found, pasted)


EVERY = [
    *[
        ("sP", {"dtype": dtype, "kv": kv, "load": load, "base": base})
        for dtype in ("bf16", "f16", "e4m3", "e5m2")
        for kv in (64, 128, 256)
        for load in ("x16", "x32", "x64")
        for base in (0, 1040)
        if kv * (1 if dtype.startswith("e") else 2) <= 256 or load != "x64"
    ],
    *[("sP90", {"dtype": dtype, "kv": kv}) for dtype in ("f16", "e5m2") for kv in (64, 128, 256)],
    *[
        ("epilogue", {"n": n, "load": load, "dtype": dtype})
        for n in (64, 96, 112, 256)
        for load in ("widest", "16x256b.x2")
        for dtype in ("f16", "f32")
        if dtype == "f16" or n < 256
    ],
    *[("ldsm", {"operand": operand, "k": k}) for operand in ("A", "B", "B_trans") for k in (32, 64, 128)],
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), EVERY, ids=str)
def test_pasted_stores_of_every_setting(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    hold_stores(*derived(name, settings, tmp_path))


def test_a_free_buffer_of_96_columns_pasted(tmp_path: Path) -> None:
    """SW64 is what 192 bytes of a row allow: the pasted stores put P where that buffer's descriptors read it."""
    P = ll.Tile("P", m=128, k=96, bits=16)
    reader = ll.umma_a(ll.SmemDescriptor(0, 0, 1536, 0), P, starts_bytes=[32 * i for i in range(6)])
    asked = written_anyhow(P, ll.tcgen05_ld("32x32b.x32").over(P), reader)
    freed = free_storage([asked])
    pasted = module_of(free_report(freed), tmp_path)
    (served,) = freed.served[0].handoffs
    assert freed.served[0].name == "k contiguous, swizzle 64 B"
    for form in ("copy", "coordinate"):
        wrong, _ = misplaced(served, served.writer.storage, getattr(pasted, f"store_P_by_{form}"))
        assert wrong == 0
    assert callable(pasted.sP_operand)


# -- handoffs of a user's own -----------------------------------------------------------------------------------------


def transposed(load: str = "16x256b.x4") -> Handoff:
    """P read MN-major: what lies side by side in memory is held by threads side by side."""
    P = ll.Tile("P", m=128, k=64, bits=16)
    desc = ll.SmemDescriptor(start=0, lbo=8192, sbo=1024, swizzle=128)
    reader = ll.umma_a(desc, P, starts_bytes=[2048 * i for i in range(4)], major="MN")
    return written_anyhow(P, ll.tcgen05_ld(load).over(P), reader)


def in_another_order() -> Handoff:
    """Threads that hold their row's even ks first: neighbours in memory are no neighbours in registers."""
    P = ll.Tile("P", m=128, k=64, bits=16)
    desc = ll.SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128)
    reader = ll.umma_a(desc, P, starts_bytes=[32 * i for i in range(4)])
    return written_anyhow(P, ll.owned("(128,(32,2)):(1,(256,128))", P), reader)


def fragments_in_another_order() -> Handoff:
    """An accumulator's fragment, the second row's values before the first pair's second."""
    P = ll.Tile("P", m=128, k=64, bits=16)
    desc = ll.SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128)
    reader = ll.wgmma_a(desc, P, starts_bytes=[32 * i for i in range(4)])
    return written_anyhow(P, ll.owned("((4,8,4,2),(8,2,2)):((256,1,16,64),(1024,8,128))", P), reader)


def padded() -> Handoff:
    """Rows of 72 elements, declared."""
    P = ll.Tile("P", m=128, k=64, bits=16)
    return written_anyhow(P, ll.tcgen05_ld("32x32b.x32").over(P), ll.declared("(128,64):(72,1)", P))


def offsets_from_the_base() -> Handoff:
    """A descriptor whose base offset counts the swizzle's rows from its own start."""
    P = ll.Tile("P", m=128, k=64, bits=16)
    desc = ll.SmemDescriptor(start=384, lbo=0, sbo=1024, swizzle=128, base_offset=3)
    reader = ll.umma_a(desc, P, starts_bytes=[32 * i for i in range(4)])
    return written_anyhow(P, ll.tcgen05_ld("32x32b.x16").over(P), reader)


def written_anyhow(tile: ll.Tile, owner: Any, reader: Any) -> Handoff:
    """A handoff whose writer is wrong in most ways: derive does not look at it."""
    s = ll.smem(f"({tile.shape[0]},{tile.shape[1]}):(1,{tile.shape[0]})", over=tile, align_bytes=1024)
    return ll.Handoff(tile, writer=ll.store(owner, s, bits=16), reader=reader)


def held_twice() -> Handoff:
    """Two threads hold each element."""
    P = ll.Tile("P", m=64, k=64, bits=16)
    return written_anyhow(P, ll.owned("((64,2),64):((1,0),64)", P), ll.declared("S<3,4,3> o 0 o (64,64):(64,1)", P))


def of_three_coordinates() -> Handoff:
    """A name that Python has not, and three coordinates."""
    P = ll.Tile("my P", m=16, k=64, n=8, bits=16)
    s = ll.smem("(16,64,8):(1,16,1024)", over=P, align_bytes=1024)
    writer = ll.store(ll.owned("(128,64):(64,1)", P), s, bits=16)
    return ll.Handoff(P, writer=writer, reader=ll.declared("(16,64,8):(64,1,1024)", P))


def of_threads_across_rows() -> Handoff:
    """56 elements of the next columns for each thread: where they lie is no sum of steps of threads and values."""
    P = ll.Tile("P", m=48, k=112, bits=16)
    return written_anyhow(P, ll.owned("(96,56):(56,1)", P), ll.declared("S<1,4,3> o 0 o (48,112):(112,1)", P))


OWN = [
    of_threads_across_rows,
    transposed,
    in_another_order,
    fragments_in_another_order,
    padded,
    offsets_from_the_base,
    held_twice,
    of_three_coordinates,
]


@pytest.mark.parametrize("make", OWN, ids=lambda make: make.__name__)
def test_pasted_stores_of_a_users_handoff(make: Any, tmp_path: Path) -> None:
    found, pasted = pasted_of(make(), tmp_path)
    hold_stores(found, pasted)
    facts = {piece.form: piece.facts for piece in found.pieces}
    if make is of_threads_across_rows:
        assert list(facts) == ["coordinate"] and "no sum of strides" in found.refusals["cotiled_copy"]
    if make is transposed:
        assert facts["stmatrix"]["instruction"] == "stmatrix.x4.trans"
    if make is in_another_order:
        assert (facts["cotiled_copy"]["bits"], facts["cotiled_copy"]["order"]) == (128, "(2,32):(32,1)")
    if make is fragments_in_another_order:
        assert facts["stmatrix"]["order"] and facts["cotiled_copy"]["bits"] == 32
    if make is padded:
        assert facts["cotiled_copy"]["conflict_free"]  # 144 bytes apart, rows spread over the banks
    if make is offsets_from_the_base:
        assert "cute.make_swizzle(3, 3, 3)" in found.pieces[0].code  # on elements, between pointer and layout


def test_the_traced_copies_are_the_required_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What CuTe DSL prints of the tiled copies that the pasted text makes, as a map of the buffer."""
    import cutlass.cute as cute

    from layoutlab.derive.threads import needed
    from layoutlab.handoff.copies import copy_coordinates
    from layoutlab.text import TiledCopy, parse

    seen = list[tuple[str, str]]()
    real = cute.make_cotiled_copy

    def noted(atom: Any, tv: Any, data: Any) -> Any:
        made = real(atom, tv, data)
        seen.append((str(made), str(data)))
        return made

    monkeypatch.setattr(cute, "make_cotiled_copy", noted)
    checked = 0
    for h in (CATALOGUE["sP"](kv=64), CATALOGUE["sP90"](kv=64), in_another_order(), transposed()):
        found, pasted = pasted_of(h, tmp_path)
        need = needed(h.writer.owner, h.reader)
        for piece in (p for p in found.pieces if p.form in ("cotiled_copy", "stmatrix")):
            seen.clear()
            name = {"cotiled_copy": "copy"}.get(piece.form, piece.form)
            misplaced(found.handoff, piece.handoff.writer.storage, getattr(pasted, f"store_P_by_{name}"))
            copy, data = parse(seen[0][0]), parse(seen[0][1])
            assert isinstance(copy, TiledCopy)
            axes = h.writer.owner.places.axes
            at = copy_coordinates(copy, h.tile, axes["t"], axes["v"])  # (T,V) -> flat coordinate of the data layout
            order = ll.parse(piece.facts["order"]) if piece.facts["order"] else (lambda v: v)
            for t in range(0, axes["t"], 7):
                for v in range(axes["v"]):
                    where = need.owner.places.at(t=t, v=int(order(v)))
                    wanted = need.storage.element.at(**where)["element"]
                    assert data(at(t, v)) == wanted, (piece.form, t, v)
                    checked += 1
    assert checked > 5000


ALTERED = [  # what is printed of sP, what is put in its place, and the store that has it
    (
        "_tv = cute.make_layout((128, 64), stride=(64, 1))",
        "_tv = cute.make_layout(((64, 2), 64), stride=((128, 64), 1))",
        "copy",
    ),
    ("stride=(1, 128))\n    tCcP", "stride=(0, 128))\n    tCcP", "coordinate"),
    ("cute.make_swizzle(3, 4, 3)", "cute.make_swizzle(2, 4, 3)", "coordinate"),
    ("cute.make_swizzle(3, 4, 3)", "cute.make_swizzle(3, 4, 4)", "copy"),
]


def test_an_altered_stride_is_found_out(tmp_path: Path) -> None:
    """The planted fault of all of the above: one number of the printed text is another one."""
    h = CATALOGUE["sP"](kv=64)
    text = report(derive(h))
    for right, wrong, form in ALTERED:
        assert right in text
        altered = module_of(text.replace(right, wrong), tmp_path)
        found, _ = misplaced(h, h.writer.storage, getattr(altered, f"store_P_by_{form}"))
        assert found > 0, (right, wrong)


def test_the_real_kernel_takes_the_pasted_store_and_operand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tcgen05.ld before and tcgen05.mma behind it: O shows every element of P in its place."""
    p_replay = pytest.importorskip("layoutlab.kernels.p_replay")
    from pasted import compiled_p

    for settings in ({"kv": 64}, {"kv": 128, "load": "x16", "dtype": "f16"}):
        h = CATALOGUE["sP"](**settings)
        writer, reader = module_of(report(derive(h)), tmp_path), module_of(report(derive(h, "reader")), tmp_path)
        v = CATALOGUE["sV"](kv=settings["kv"], head_dim=64, dtype=settings.get("dtype", "bf16"))
        parts_ = writer.store_P_by_copy, reader.sP_operand, module_of(report(derive(v, "reader")), tmp_path).sV_operand
        monkeypatch.setattr(p_replay, "compile_kernel", lambda chosen, p=parts_: compiled_p(chosen, *p))
        seen = p_replay.observe({**settings, "write_swizzle": "none"})
        size = h.tile.size
        assert seen["stopped"] is None and seen["seen"] == list(range(size)), settings
        every = all_coordinates(h)
        model = (h.reader.read.at(**every)["bit"] // 8).reshape(-1)
        assert (np.array(seen["reads"]) - seen["reads"][0]).tolist() == model.tolist() and seen["reads"][0] % 1024 == 0
        assert seen["width_bytes"] == [16]


TENSOR: list[tuple[str, dict[str, Any]]] = [
    ("tP", {}),
    ("tP", {"kv": 64, "dtype": "e4m3", "p_offset": 16, "read_offset": 16}),
    ("tP", {"load": "16x256b.x4"}),
    ("tP", {"load": "32x32b.x16", "slot": 1}),
    ("oRescale", {"head_dim": 64}),
    ("oRescale", {"load": "16x64b.x16", "factors": "row", "head_dim": 64}),
]


@pytest.mark.parametrize(("name", "settings"), TENSOR, ids=str)
def test_pasted_stores_to_tensor_memory(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    found, pasted = derived(name, settings, tmp_path)
    h, every = found.handoff, all_coordinates(found.handoff)
    read = h.reader.read.at(**every)
    for part in parts(h):
        _, where = owned_tags(h)
        image = tensor_image(getattr(pasted, f"store_{h.tile.name}_to_tmem"), numbered(h, where, part), h.tile.bits)
        assert np.array_equal(image[read["lane"], read["bit"] // h.tile.bits], numbered(h, every, part))


def test_pasted_stores_to_tensor_memory_take_registers_in_their_order(tmp_path: Path) -> None:
    """Threads that hold the odd ks after the even ones."""
    P = ll.Tile("P", m=128, k=64, bits=16)
    owner = ll.owned("(128,(32,2)):(1,(256,128))", P)
    writer = ll.tmem_store(owner, ll.tmem(over=P, column=8), "32x32b.x32")
    h = ll.Handoff(P, writer=writer, reader=ll.umma_a_tmem(P, column=8))
    assert not ll.verify(h).proved
    found, pasted = pasted_of(h, tmp_path)
    assert found.pieces[0].facts["order"] == "(2,32):(32,1)"
    tags, _ = owned_tags(h)
    every = all_coordinates(h)
    read, image = h.reader.read.at(**every), tensor_image(pasted.store_P_to_tmem, tags, 16)
    assert np.array_equal(image[read["lane"], read["bit"] // 16], numbered(h, every))


LOADED: list[tuple[str, dict[str, Any]]] = [
    *[("sQ", {"head_dim": d, "dtype": dtype}) for d in (64, 128) for dtype in ("bf16", "e4m3")],
    ("sK", {"kv": 64, "head_dim": 256}),
    ("sV", {"head_dim": 128, "kv": 64}),
    ("sV", {"head_dim": 64, "dtype": "e4m3"}),
]


@pytest.mark.parametrize(("name", "settings"), LOADED, ids=str)
def test_pasted_loads_by_tma(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    found, pasted = derived(name, settings, tmp_path)
    (piece,), h = found.pieces, found.handoff
    every, size = all_coordinates(h), h.tile.size * h.tile.bits // 8
    at = h.reader.read.at(**every)["bit"] // h.tile.bits
    inner = list(h.tile.extents).index(next(iter(piece.facts["box"])))
    for part in parts(h):
        tags = numbered(h, every, part)
        image, tensor_map = loaded_image(pasted, h.tile.name, tags, inner, h.tile.bits, size, 0)
        assert np.array_equal(image[at], tags)
    assert (tensor_map.box[:2], tensor_map.swizzle) == (tuple(piece.facts["box"].values()), piece.facts["swizzle"])


def image_as_read(h: Handoff, part: int) -> Any:
    """Shared memory in which each element's number lies where the writer puts it, from byte 0 of its space on."""
    _, where = owned_tags(h)
    axes = h.writer.write.axes
    t, v = np.meshgrid(np.arange(axes["t"]), np.arange(axes["v"]), indexing="ij")
    at = h.writer.write.at(t=t, v=v)["bit"] // h.tile.bits
    image = np.zeros(int(at.max()) + 1, {8: np.uint8, 16: np.uint16, 32: np.uint32}[h.tile.bits])
    image[at] = numbered(h, where, part)
    return image


SENT: list[tuple[str, dict[str, Any]]] = [
    ("epilogue", {}),
    ("epilogue", {"n": 96, "tma_swizzle": "none"}),
    ("epilogue", {"n": 64, "dtype": "f32"}),
]


@pytest.mark.parametrize(("name", "settings"), SENT, ids=str)
def test_pasted_stores_by_tma(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    hold_sent(CATALOGUE[name](**settings), tmp_path)


def hold_sent(h: Handoff, tmp_path: Path) -> None:
    found = derive(h, "reader")
    (piece,), pasted = found.pieces, module_of(report(found), tmp_path)
    every, inner = all_coordinates(h), list(h.tile.extents).index(next(iter(piece.facts["box"])))
    for part in parts(h):
        image = image_as_read(h, part)
        sent = sent_tensor(pasted, h.tile.name, image, h.tile.shape, inner, h.tile.bits, h.writer.storage.base_bytes)
        assert np.array_equal(sent, numbered(h, every, part))


@pytest.mark.parametrize("operand", ["A", "B", "B_trans"])
@pytest.mark.parametrize("k", [32, 64])
def test_pasted_loads_by_ldmatrix(operand: str, k: int, tmp_path: Path) -> None:
    h = CATALOGUE["ldsm"](operand=operand, k=k, trans="wrong")
    found = derive(h, "reader")
    (piece,), pasted = found.pieces, module_of(report(found), tmp_path)
    fragment = h.reader.given["fragment"].places
    t, v = np.meshgrid(np.arange(fragment.axes["t"]), np.arange(fragment.axes["v"]), indexing="ij")
    load = getattr(pasted, f"load_{h.tile.name}_by_ldmatrix")
    registers, opcodes = fetched_registers(load, image_as_read(h, 0), *t.shape, h.tile.bits, 0)
    assert np.array_equal(registers, numbered(h, fragment.at(t=t, v=v)))
    assert all(op.startswith("ldmatrix.sync.aligned.m8n8.x4") for op in opcodes) and opcodes
    assert any(".trans" in op for op in opcodes) == piece.facts["trans"]


def test_the_real_kernel_takes_the_pasted_operand_in_tensor_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tcgen05.mma reads P where the model says, of a pointer of 32-bit words; an accumulator's tensor is made too."""
    from layoutlab.crosscheck.tmem_p import kernel_settings
    from layoutlab.kernels import attention, attention_observe

    h = CATALOGUE["tP"]()
    pasted = module_of(report(derive(h, "reader")), tmp_path)
    ours: Any = derive(produced_by_the_mma())
    produced = module_of(report(ours), tmp_path)
    seen_layouts = list[tuple[str, str]]()

    class Pasted(attention.Attention):
        def p_operand(self, pv_mma: Any, tStS: Any, sP: Any, sP_layout: Any) -> Any:
            import cutlass.cute as cute

            made = produced.tO_of(tStS.iterator, tStS)
            seen_layouts.append((str(made.layout), str(tStS.layout)))
            tP = cute.make_tensor(tStS.iterator, sP_layout.outer)
            return pasted.tP_of(tStS.iterator, pv_mma.make_fragment_A(tP)[None, None, None, 0])

    monkeypatch.setattr(attention, "Attention", Pasted)
    fresh = attention_observe.compile_attention.__wrapped__  # neither an earlier test's kernel, nor one for later tests
    monkeypatch.setattr(attention_observe, "compile_attention", fresh)
    seen = attention_observe.observe(kernel_settings(h.params), 0)
    read = h.reader.read.at(**all_coordinates(h))
    assert seen["stopped"] is None
    assert seen["reads"] == (read["lane"] * 16384 + read["bit"]).ravel().tolist()
    assert seen_layouts and all(made == given for made, given in seen_layouts)


def produced_by_the_mma() -> Handoff:
    """An accumulator in Tensor Memory that the next MMA accumulates on, begun at another column than is read."""
    O = ll.Tile("O", m=128, n=64, bits=32)  # noqa: E741
    return ll.Handoff(O, writer=ll.umma_out(ll.tmem(over=O, column=0)), reader=ll.umma_d(O, column=256))


def test_boxes_that_the_dsl_does_not_make_are_not_printed() -> None:
    """Rows of 32 bytes in a swizzle of 64: of such a layout CuTe DSL makes a box of each row, at odd addresses."""
    P = ll.Tile("P", m=64, k=8, bits=32)
    s = ll.smem("S<2,4,3> o 0 o (64,8):(16,1)", over=P, align_bytes=1024)
    writer, box = ll.store("(64,8):(1,64)", s, bits=32), {"k": 8, "m": 64}
    h = ll.Handoff(P, writer=writer, reader=ll.tma_store(s, box=box, swizzle=64))
    assert ll.verify(h).proved
    found = derive(h, "reader")
    assert found.verdict == "none" and "makes one of each row" in found.refusals["tma_store"]
    loaded = ll.Handoff(P, writer=ll.tma_load(s, box=box, swizzle=64), reader=ll.declared(s, P))
    assert ll.verify(loaded).proved and "makes one of each row" in derive(loaded).refusals["tma_load"]


def kept_in_another_order() -> Handoff:
    """A wgmma's accumulator whose rows' values are held one row after the other, and are the next A operand."""
    h = CATALOGUE["rs_reuse"](kv=64)
    layout = h.writer.owner.layout
    owner = ll.owned(make_layout(layout[0], composition(layout[1], ll.Layout((16, 2), (2, 1)))), h.tile)
    return ll.Handoff(h.tile, writer=ll.keep(owner), reader=h.reader)


@pytest.mark.parametrize("make", [CATALOGUE["rs_reuse"], kept_in_another_order], ids=["as_held", "other_order"])
def test_pasted_registers_are_the_fragment(make: Any, tmp_path: Path) -> None:
    import cutlass
    import cutlass.cute as cute

    found, pasted = pasted_of(make(), tmp_path)
    h, (threads, values) = found.handoff, found.handoff.writer.owner.places.axes.values()
    assert (found.pieces[0].facts["order"] is None) == (make is CATALOGUE["rs_reuse"])

    @cute.jit
    def spread(rP: cute.Tensor, start: cute.Pointer, tidx: cutlass.Int32):
        fragment = pasted.fragment_of_P(rP)
        plain = cute.make_layout((threads, values), stride=(values, 1))
        sP = cute.make_tensor(cute.recast_ptr(start, dtype=rP.element_type), plain)
        for v in cutlass.range_constexpr(values):
            sP[tidx, v] = fragment[v]

    image, _ = shared_image(spread, owned_tags(h)[0], h.tile.bits, threads * values * 2, 0)
    every = all_coordinates(h)
    read = h.reader.read.at(**every)
    shown = image[: threads * values].reshape(threads, values)
    assert np.array_equal(shown[read["thread"], read["bit"] // h.tile.bits], numbered(h, every))
