"""explain: each recorded print is explained, what is said is what counting gives, and faults are named first."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutlab import Layout, LayoutError, Swizzle, functionally_equal, parse
from layoutlab.cli import main
from layoutlab.cli.explain import pieces
from layoutlab.cli.words import describe
from layoutlab.cli.words.copies import reference_side, side_tv
from layoutlab.cli.words.layouts import formula, index_names
from layoutlab.cli.words.report import counted, listed
from layoutlab.int_tuple import flatten, idx2crd
from layoutlab.text import CopyAtom, TiledCopy

PRINTED = Path(__file__).parent / "data" / "printed"


def said(x: object) -> str:
    """A description on one line, blanks made one."""
    return " ".join(str(describe(x)).split())


def printed(name: str) -> str:
    return (PRINTED / f"{name}.txt").read_text()


# -- what a first-time user learns ------------------------------------------------------------------------------------


def test_a_tiled_copy_says_threads_values_tile_width_coverage_and_units(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", printed("tiled_copy")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for fact in (
        "128 threads move a tile of 16 x 64 elements, 8 values each",
        "values 8 a thread and tile, its second mode: 8:16, in 1 instruction of 8 values",
        "T0 V0 has (0,0); T0 V1 has (0,1); T1 V0 has (0,8)",
        "covers the tile exactly: each of its 1024 elements has one thread and value",
        "go along mode 1 one by one, 8 in a row",
        "one instruction takes 8 values of a thread, 128 bits (16 bytes)",
        "counted in elements, and no memory offsets",
    ):
        assert fact in text


def test_a_tmem_load_is_explained_by_what_threads_hold_as_the_dsl_says_it() -> None:
    copy = parse(printed("tiled_copy_tmem_load"))
    assert functionally_equal(side_tv(copy, copy.atom.dst), parse(printed("tiled_copy_tmem_load_tv_dst")))
    assert side_tv(copy, copy.atom.src) is not None and reference_side(copy) == copy.atom.src
    text = said(copy)
    assert "128 threads move a tile of 4096 x 1 x 1 elements, 32 values each" in text
    assert "T1 V0 has (128,0,0), the tensor's (1,0,0)" in text
    assert "covers the tile exactly: each of its 4096 elements" in text


def test_both_sides_of_a_universal_copy_are_the_dsls() -> None:
    copy = parse(printed("tiled_copy"))
    assert functionally_equal(side_tv(copy, copy.atom.dst), parse(printed("tiled_copy_tv_dst")))


def test_cpp_says_which_side_the_dsl_does_not() -> None:
    """Of an instruction of the tables the side is known; the text alone does not tell it."""
    copy = parse(printed("tiled_copy_ldmatrix"))
    assert reference_side(copy) == copy.atom.dst
    atom = CopyAtom(copy.atom.thr, copy.atom.src, copy.atom.dst, copy.atom.dst, "16b")
    known = TiledCopy(copy.tiler, copy.tv, atom)
    for side in (copy.atom.src, copy.atom.dst):
        assert functionally_equal(side_tv(known, side), side_tv(copy, side))
    # ldmatrix x4: lane 1 addresses row 1 of the first matrix, of which T4 V0 gets the first element.
    assert side_tv(known, known.atom.src)(1, 0) == known.tv(4, 0)
    nobodys = CopyAtom(atom.thr, Layout((32, 8), (1, 32)), atom.dst, None, "f16")
    with pytest.raises(LayoutError, match="does not say for which side"):
        side_tv(TiledCopy(copy.tiler, copy.tv, nobodys), atom.src)


NAMED = {
    "tiled_copy": "these are the layouts of a load or store of 128 bits and of cp.async",
    "tiled_copy_ldmatrix": "these are the layouts of ldmatrix.m8n8.x4",
    "tiled_copy_tmem_load_16x256b": "these are the layouts of tcgen05.ld.16x256b.x4",
    "tiled_copy_tmem_store": "these are the layouts of tcgen05.st.32x32b.x16",
    "copy_atom_tmem_load": "these are the layouts of tcgen05.ld.32x32b.x32",
    "tiled_mma_sm80": "these are the layouts of mma.sync.m16n8k16.f16.f16.f16.f16 and of mma.sync.m16n8k16.f32.f16.f16",
    "tiled_mma_sm100_two_cta": "these are the layouts of tcgen05.mma.cta_group::2 of 16-bit elements",
}


@pytest.mark.parametrize("name", NAMED)
def test_the_instruction_is_recognised(name: str) -> None:
    assert NAMED[name] in said(parse(printed(name)))


def test_an_instruction_that_does_not_exist_is_not_named() -> None:
    changed = printed("tiled_copy_ldmatrix").replace("(32,(2,4)):(2,(1,64))", "(32,(2,4)):(2,(64,1))")
    assert "no ldmatrix, stmatrix, tcgen05.ld, st or cp has these layouts" in said(parse(changed))
    changed = printed("tiled_mma_sm80").replace("((32,1),(16,8,128))", "((32,1),(16,128,8))")
    assert "no mma.sync, wgmma or tcgen05.mma of the tables has these layouts" in said(parse(changed))


def test_a_bulk_copy_is_no_threads_own_vector() -> None:
    text = said(parse((PRINTED.parent / "printed_sm90" / "copy_atom_tma.txt").read_text()))
    assert "one thread issues it for all, a bulk copy" in text and "8192 elements" in text


def test_a_warpgroup_mma_says_which_operand_is_in_registers() -> None:
    folder = PRINTED.parent / "printed_sm90"
    shared, registers = (said(parse((folder / f"tiled_mma_wgmma{x}.txt").read_text())) for x in ("", "_registers"))
    assert "all 128 threads name the same 1024 elements: it is not spread over registers" in shared
    assert "operand A 64 x 16: ((4,8,4),(2,2,2)):((128,1,16),(64,8,512)) 8 values for each of 128" in registers
    assert "256: 128 an atom, 2 x 1 x 1 atoms" in registers and "a tile of 128 x 128 x 16" in registers


def test_one_thread_that_owns_the_whole_tile_is_remarked() -> None:
    assert "each of them moves the whole tile" in said(parse(printed("tiled_copy_store_c")))


COPY = """Tiled Copy
  Tiler MN:        ({tile})
  TV Layout tiled: {tv}
Copy Atom
  ThrID:           1:0
  TV Layout Src:   (1,4):(0,1)
  TV Layout Dst:   (1,4):(0,1)
  Value type:      f16"""


@pytest.mark.parametrize(
    ("tile", "tv", "sentence"),
    [
        ("8:1,4:1", "(8,4):(1,8)", "covers the tile exactly: each of its 32 elements has one thread and value"),
        ("8:1,8:1", "(8,4):(1,8)", "covers misses 32 of the 64 elements, the first is (0,4)"),
        ("8:1,4:1", "(8,4):(1,9)", "leaves the tile: T5 V3 has element 32 of 32; misses 3 of the 32 elements"),
        ("8:1,4:1", "(8,4):(1,9)", "misses 3 of the 32 elements, the first is (0,1)"),
        ("8:1,4:1", "(8,4):(1,4)", "misses 12 of the 32 elements, the first is (4,2)"),
        ("8:1,4:1", "(8,4):(1,4)", "T4 V0 and T0 V1 both have (4,0) (two writers would race)"),
        ("8:1,4:1", "((2,8),4):((0,1),8)", "has each of its 32 elements 2 times: T0 V0 and T1 V0 both have (0,0)"),
        ("8:1,4:1", "((2,8),4):((0,1),8)", "(2 threads do not move it, stride 0: a load copies it to each"),
    ],
)  # fmt: skip
def test_a_wrong_tiled_copy_is_named_with_its_first_fault(tile: str, tv: str, sentence: str) -> None:
    assert sentence in said(parse(COPY.format(tile=tile, tv=tv)))


def test_the_first_missed_element_is_missed_and_none_before() -> None:
    tv = parse("(8,4):(1,4)")
    taken = {tv(t, v) for t in range(8) for v in range(4)}
    assert min(set(range(32)) - taken) == 20 and idx2crd(20, (8, 4)) == (4, 2)


# -- layouts and swizzles ---------------------------------------------------------------------------------------------


def test_the_swizzles_unit_is_a_question_with_a_number() -> None:
    text = said(parse("S<3,4,3> o 0 o (8,64):(64,1)"))
    assert "the text does not say what the swizzle counts" in text
    assert "S<3,3,3> on 16-bit elements and S<3,2,3> on 32-bit elements" in text
    assert "(1,0) lies at 64 if the swizzle counts elements, at 72 if it counts bytes under 16-bit ones" in text


def test_a_swizzled_pointer_counts_bytes() -> None:
    text = said(parse("tensor<ptr<bf16, smem, align<1024>, S<3,4,3>> o (8,64):(64,1)>"))
    assert "it counts bytes (the hardware's 128-byte swizzle)" in text
    assert "(1,0), the first that it moves, lies at 72 and not at 64" in text
    assert "the base is a multiple of 1024 bytes, its period" in text
    assert "8 elements along j lie side by side" in text and "takes 1024 bytes" in text
    low = said(parse("tensor<ptr<bf16, smem, align<128>, S<3,4,3>> o (8,64):(64,1)>"))
    assert "the base is a multiple of 128 bytes only and its period is 1024" in low


def test_tmem_is_counted_in_lanes_and_columns() -> None:
    assert "spans 128 lanes and 128 columns" in said(parse(printed("tmem_accumulator")))
    # bf16 in TMEM: two elements a column, so a lane is 131072 elements
    text = said(parse("tensor<ptr<bf16, tmem, align<1>> o ((128,16),1,8):((131072,1),0,16)>"))
    assert "spans 128 lanes and 64 columns" in text


def test_descriptors_are_counted_in_16_bytes() -> None:
    assert "0, 32, 64, 96, 16384, 16416, 16448, 16480, ... bytes" in said(parse(printed("fragment_a")))


def test_what_is_not_injective_is_named_with_two_coordinates() -> None:
    assert "not injective: (2,0) and (0,1) both lie at 2" in said(parse("(4,2):(1,2)"))
    assert "more coordinates than locations" in said(parse("(1048576,(1024,1024)):(1,(524288,3))"))
    assert "was not decided" in said(parse("(1048576,1048576):(4194304,4194305)"))


@given(st.integers(1, 3), st.integers(0, 3), st.integers(0, 2), st.sampled_from([1, -1]))
def test_the_bits_that_a_swizzle_is_said_to_change(bits: int, base: int, more: int, sign: int) -> None:
    swizzle = Swizzle(bits, base, sign * (bits + more))
    changed = {i for x in range(1 << 12) for i in range(12) if (swizzle(x) ^ x) >> i & 1}
    source = {i for i in range(12) if swizzle(1 << i) != 1 << i}
    text = said(swizzle)
    noun = "bit" if bits == 1 else "bits"
    assert f"{noun} {listed(sorted(changed))} are xor-ed with {noun} {listed(sorted(source))};" in text
    assert f"runs of {1 << min(changed | source)} stay together" in text
    repeats = next(p for p in (1 << i for i in range(13)) if all(swizzle(x + p) == swizzle(x) + p for x in range(2048)))
    assert f"repeats every {repeats}" in text


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([0, 1, 2, 32, 65536, 131072])), min_size=1, max_size=4))
def test_lanes_and_columns_are_those_of_the_addresses(leaves: list[tuple[int, int]]) -> None:
    layout = Layout(tuple(s for s, _ in leaves), tuple(d for _, d in leaves))
    places = [layout(i) for i in range(int(layout.size()))]
    lanes, columns = (1 + max(p >> 16 for p in places), 1 + max(p & 0xFFFF for p in places))
    text = said(parse(f"tensor<ptr<f32, tmem, align<1>> o {layout}>"))
    assert f"spans {counted(lanes, 'lane')} and {counted(columns, 'column')}" in text


@given(st.data())
def test_the_formula_is_the_function(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    stride = tuple(data.draw(st.integers(-9, 9)) for _ in shape)
    layout = Layout(shape, stride)
    text = formula(layout).replace(" - ", " + -").split(" + ")
    names = flatten(index_names(shape))
    for i in range(min(30, int(layout.size()))):
        at = dict(zip(names, idx2crd(i, shape), strict=True))
        total = 0
        for term in text:
            number, _, name = term.rpartition(" ")
            bare = name.lstrip("-")
            factor = int(number) if number else -1 if name.startswith("-") else 1
            total += factor * at[bare] if bare in at else int(term)
        assert total == layout(i)


@pytest.mark.parametrize(
    ("text", "lands"),
    [
        ("(?,0) o ((32,1),4,1,1):((1@1,0),32@1,0,0)", "(?, i0 + 32 j)"),
        ("(4,(2,3)):(1@1,(16@0,32@0@1))", "(16 j0, (i + 32 j1))"),
        ("(128,64) o (128,64):(1@0,1@1)", "(i + 128, j + 64)"),
    ],
)
def test_coordinates_are_said_entry_by_entry(text: str, lands: str) -> None:
    assert f"lands on {lands}" in said(parse(text))


# -- whole logs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(PRINTED.parent.glob("printed*/*.txt")), ids=lambda p: p.stem)
def test_each_recorded_print_is_explained(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", path.read_text()]) == 0
    shown = capsys.readouterr()
    assert "not understood" not in shown.out and not shown.err
    assert all(len(line) < 125 for line in shown.out.splitlines())


def test_a_log_is_explained_thing_by_thing(capsys: pytest.CaptureFixture[str]) -> None:
    log = f"compiling ...\nsA: (8,64):(64,1)\n{printed('tiled_copy')}\nsB = (4,2):(1,16)\nit took 3 s\n"
    assert [(n, label) for n, label, _ in pieces(log)] == [(1, ""), (2, "sA"), (3, ""), (11, "sB"), (12, "")]
    assert main(["explain", log]) == 0
    out = capsys.readouterr().out
    assert "sA: (8,64):(64,1) is a layout" in out and "this is a tiled copy" in out and "sB: (4,2)" in out
    assert "not understood, and so not explained: lines 1, 12" in out and "\nthe first of them: compiling ...: " in out


def test_text_of_which_nothing_is_understood_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "hello there"]) == 2
    assert capsys.readouterr().err.startswith("layoutlab: expected the end of the text at column 7, found 't'\n")


def test_an_expression_is_explained_by_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "composition((6,2):(8,2), (4,3):(3,1))"]) == 0
    assert capsys.readouterr().out.startswith("((2,2),3):((24,2),8) is a layout")


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("(4,2):(1,16)\n"))
    assert main(["explain", "-"]) == 0
    assert "i + 16 j" in capsys.readouterr().out


entries = ["1", "2", "3", "4", "8", "0", "-1", "N", "?", "1@0", "2@1", "_", "(2,2)", "(4,(2,3))", "64"]
numbers = st.lists(st.sampled_from(entries), min_size=1, max_size=4)
prefixes = [
    "",
    "S<3,4,3> o 0 o ",
    "S<1,0,2>[8b] o 8 o [16b]",
    "(?,0) o ",
    "4:2 o 1 o ",
    "tensor<ptr<f16, tmem> o ",
    "tensor<ptr<f16, rmem> o ",
    "tensor<ptr<f16, smem, align<16>, S<2,4,3>> o ",
    "gmem_ptr[4b] o ",
    "Sw<2,1,3>_smem_ptr[32b](0) o ",
    "UMMA::DescriptorIterator o ",
]


@given(numbers, numbers, st.sampled_from(prefixes))
@settings(max_examples=400, deadline=None)
def test_whatever_is_parsed_is_described(shape: list[str], stride: list[str], before: str) -> None:
    after = ">" if before.startswith("tensor") else ""
    text = f"{before}({','.join(shape)}):({','.join(stride)}){after}"
    try:
        value = parse(text)
    except LayoutError:
        return
    try:
        assert said(value)
    except LayoutError as e:
        assert str(e)


fields = ["1:0", "8:1", "32:1", "(1,4):(0,1)", "(8,4):(1,8)", "((2,4),4):((0,1),8)", "(8,4):(3,8)", "(8,4):(1,-8)", "N"]
fields += ["(N,4):(1,8)", "(8,4):(1@0,1@1)", "():()", "S<1,0,1> o 0 o 8:1", "_", "(_,_,_)", "(8:1,4:1)", "(8,4)", "(4)"]
fields += [
    "(32,4):(4,1)",
    "(32,32):(0,1)",
    "(16,8,16)",
    "(1,1,1,1):(0,0,0,0)",
    "(8,(4,1048576)):(1,(8,32))",
    "(0,8,16)",
]
lines = st.sampled_from(fields)


@st.composite
def blocks(draw: st.DrawFn) -> str:
    def atom(title: str, *names: str) -> str:
        return "\n".join([title, *(f"  {name}: {draw(lines)}" for name in names)])

    if draw(st.booleans()):
        tiled = atom("Tiled MMA", "Thr Layout VMNK", "Permutation MNK")
        return f"{tiled}\n{atom('MMA Atom', 'ThrID', 'Shape MNK', 'TV Layout A', 'TV Layout B', 'TV Layout C')}"
    tiled = atom("Tiled Copy", "Tiler MN", "TV Layout tiled")
    return f"{tiled}\n{atom('Copy Atom', 'ThrID', 'TV Layout Src', 'TV Layout Dst')}\n  Value type: f16"


@given(blocks())
@settings(max_examples=400, deadline=None)
def test_blocks_of_any_layouts_are_described_or_refused(text: str) -> None:
    try:
        assert said(parse(text))
    except LayoutError as e:
        assert str(e)


@pytest.mark.parametrize(
    ("line", "by", "sentence"),
    [
        ("((8,16),8):((128,1),16)", "8:1", "8:1 is no (thread, value) layout, it has not two modes but 1"),
        ("Src:   (1,8):(0,1)", "Src: (1,8):(0,1@1)", "gives coordinates, where a (thread, value) layout"),
        ("(16:1,64:1)", "(16:1,N)", "is no tiler, whose modes are layouts, sizes or _"),
    ],
)  # fmt: skip
def test_a_block_that_makes_no_sense_is_refused(line: str, by: str, sentence: str) -> None:
    text = printed("tiled_copy")
    assert line in text
    with pytest.raises(LayoutError) as e:
        parse(text.replace(line, by))
    assert sentence in str(e.value)


# -- lines of a log ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("line", "label", "layout"), [
    ("sP layout: S<3,4,3> o 0 o (8,64):(64,1)", "sP layout", "S<3,4,3> o 0 o (8,64):(64,1)"),
    ("[rank0] sA: (8,8):(8,1)", "[rank0] sA", "(8,8):(8,1)"),
    ("sA: (8,8):(8,1),", "sA", "(8,8):(8,1)"),
    ("sA: (8,8):(8,1).", "sA", "(8,8):(8,1)"),
    ("2026-01-01 12:00:00 INFO sA = (8,8):(8,1)", "2026-01-01 12:00:00 INFO sA", "(8,8):(8,1)"),
    ("sA (8,8):(8,1)", "sA", "(8,8):(8,1)"),
])  # fmt: skip
def test_a_layout_is_found_in_its_line(line: str, label: str, layout: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", line]) == 0
    assert capsys.readouterr().out.startswith(f"{label}: {layout} is a ")


@pytest.mark.parametrize("line", [
    "sA S<3,4,x> o 0 o (8,64):(64,1)",  # what is left of an `o` that is not understood is not left out
    "sA 0 o (8,64):(64,1) (8,8):(8,1)",
    "composition(4:1, x) 8:1",
    "it took 12 ms, 3 of 4",
])  # fmt: skip
def test_no_part_of_a_composition_is_taken_for_a_label(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", line]) == 2


def test_a_tensor_with_its_numbers_is_one_thing_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    raw = "tensor(raw_ptr(0x736b0c0: f32, generic, align<4>) o (2,2):(2,1), data="
    assert main(["explain", f"{raw}\n  [[ 1.0, 2.5, ],\n   [ 3.0, 4.0, ]])\nsB: (8,8):(8,1)"]) == 0
    out = capsys.readouterr().out
    assert "elements of f32, 4 bytes" in out and "\nsB: (8,8):(8,1) is a layout" in out
    assert "not understood" not in out


@pytest.mark.parametrize("junk", ["cute.struct: sA @ 0", "GMEM_PTR", "sA@0"])
def test_a_name_is_refused_with_what_could_be_pasted(junk: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", junk]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "and no layout; paste what a kernel printed: a layout (8,64):(64,1)" in err


def test_strides_are_not_taken_for_a_shape() -> None:
    text = said(parse("(((1@0,1@1)),2@0)"))
    assert "is a tuple of strides of a coordinate layout, not a shape" in text and "coordinates" not in text
    assert "as a shape 2 modes, 512 coordinates" in said(parse("(8,64)"))


def test_both_readings_of_a_swizzle_without_a_unit_are_told_apart() -> None:
    text = said(parse("S<3,4,3> o 0 o (8,64):(64,1)"))
    by_bytes = parse("S<3,4,3>[8b] o 0 o [16b](8,64):(64,1)")
    by_elements = parse("S<3,4,3> o 0 o (8,64):(64,1)")
    for label, layout, run in (
        ("if elements", by_elements, 16),
        ("if bytes of 16-bit elements:", by_bytes, 8),
    ):
        places = ", ".join(str(layout(i)) for i in range(8))
        assert f"{label} the flat indices 0, 1, 2, ... lie at {places}, ... and {run} elements along j" in text
    assert "vectors" not in text and "counting" not in text
    assert "changes bits inside of a 16-bit unit" in said(parse("S<1,0,3> o 0 o (8,8):(8,1)"))


def test_a_swizzle_before_a_pointer_is_explained_as_on_it() -> None:
    before = said(parse("Sw<3,4,3> o smem_ptr[16b](0x7f2c) o (8,64):(64,1)"))
    assert before == said(parse("Sw<3,4,3>_smem_ptr[16b](0x7f2c) o (8,64):(64,1)"))
    assert "a tensor in shared memory" in before and "it counts bytes" in before


def test_a_host_tensor_is_explained_without_its_type() -> None:
    text = said(parse("Tensor<0x00007f3a12000000@gmem o (128, 64):(64, 1)>"))
    assert "is a tensor in global memory" in text and "the text does not say of which type" in text
