"""Text: what CuTe DSL, C++ and pycute print is read and printed back; other text is refused with its place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pycute
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from layoutlab import ComposedLayout, Layout, LayoutError, Swizzle
from layoutlab.int_tuple import Basis, congruent, flatten, unflatten
from layoutlab.symbol import Sym
from layoutlab.text import (
    CopyAtom,
    MmaAtom,
    Opaque,
    Pointer,
    Tensor,
    TiledCopy,
    TiledMma,
    Values,
    bits_of,
    parse,
    parse_layout,
    to_text,
)

DATA = Path(__file__).parent / "data"
DSL = sorted((DATA / "printed").glob("*.txt"))
CPP_LINES = [line for line in (DATA / "printed_cpp" / "one_line.txt").read_text().splitlines() if line]

# -- values -----------------------------------------------------------------------------------------------------------

names = st.sampled_from(["N", "M", "n1", "o", "S", "?", "?k"]).map(Sym)
polynomials = st.builds(lambda a, x, b: a * x + b, st.integers(-9, 9).filter(bool), names, st.integers(-9, 9))
extents = st.integers(1, 2**70) | names | st.builds(lambda x, y: x * y, names, names)
strides = st.integers(-(2**70), 2**70) | names | polynomials
bases = st.builds(lambda v, p: Basis(v, tuple(p)), strides, st.lists(st.integers(0, 9), min_size=1, max_size=3))


def profiles(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=8)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    shape = draw(profiles(extents))
    return Layout(shape, unflatten([draw(strides | bases) for _ in flatten(shape)], shape))


units = st.none() | st.sampled_from([1, 4, 6, 8, 16, 32])
swizzles = st.builds(
    lambda b, m, s, u, sign: Swizzle(b, m, sign * (b + s), u), *[st.integers(0, 5)] * 3, units, st.sampled_from([1, -1])
)
offsets = profiles(strides)
composed = st.builds(ComposedLayout, swizzles | layouts(), offsets, layouts(), units) | st.builds(
    ComposedLayout, st.none(), offsets, layouts(), units
)
pointers = st.builds(
    Pointer,
    st.just("bf16"),
    st.just(16),
    st.sampled_from([None, "smem", "gmem", "rmem", "tmem"]),
    st.none() | st.integers(1, 4096),
    st.none() | swizzles.map(lambda s: Swizzle(s.bits, s.base, s.shift, 8)),
) | st.builds(
    Pointer,
    st.none(),
    st.integers(1, 128),
    st.sampled_from([None, "smem", "gmem", "rmem"]),
    st.none(),
    st.none() | swizzles.map(lambda s: Swizzle(s.bits, s.base, s.shift, 8)),
    st.sampled_from([None, "(0x7f42efc00000)", "((nil))", "(ADDR + 8)"]),
)
plain_composed = composed.filter(lambda c: c.inner is not None)
tensors = st.builds(Tensor, pointers, layouts() | plain_composed)
values = layouts() | swizzles | composed | pointers | tensors | profiles(strides | bases | st.none())


@given(values)
def test_what_str_prints_is_read_back(x: Any) -> None:
    if isinstance(x, tuple):
        assert parse(to_text(x)) == x
    elif x is not None:
        assert parse(str(x)) == x


plain = st.builds(ComposedLayout, st.none() | layouts(), offsets, layouts())


@given(layouts() | plain)
def test_each_style_is_read_back(x: Any) -> None:
    for style in ("dsl", "c++", "pycute"):
        assert parse(to_text(x, style)) == x


unitless = st.builds(
    lambda s, o, x: ComposedLayout(Swizzle(s.bits, s.base, s.shift), o, x), swizzles, offsets, layouts()
)


@given(unitless)
def test_swizzles_without_unit_keep_none_in_each_style(x: ComposedLayout) -> None:
    for style in ("dsl", "c++", "pycute"):
        assert parse(to_text(x, style)) == x


def test_a_byte_swizzle_is_the_same_function_in_each_style() -> None:
    x = ComposedLayout(Swizzle(3, 4, 3, 8), 0, Layout((8, 64), (64, 1)), 16)
    for style in ("dsl", "c++", "pycute"):
        read = parse(to_text(x, style))
        assert [read(i) for i in range(512)] == [x(i) for i in range(512)]


def test_a_swizzle_with_a_unit_is_not_printed_where_the_unit_would_be_lost() -> None:
    with pytest.raises(LayoutError, match="says what it counts"):
        to_text(Swizzle(3, 4, 3, 8))


# -- recorded texts ---------------------------------------------------------------------------------------------------

CLASSES = {
    "_Layout": Layout,
    "_ComposedLayout": ComposedLayout,
    "_Swizzle": Swizzle,
    "Swizzle": Swizzle,
    "_Pointer": Pointer,
    "_Tensor": (Tensor, ComposedLayout),
    "TensorSSA": Values,
    "CopyAtom": CopyAtom,
    "TiledCopy": TiledCopy,
    "TiledMma": TiledMma,
    "tuple": tuple,
}


@pytest.mark.parametrize("path", DSL, ids=lambda p: p.stem)
def test_recorded_dsl_text_is_read_as_what_it_was(path: Path) -> None:
    made = json.loads((DATA / "printed" / "index.json").read_text())[path.stem]["class"]
    value = parse(path.read_text())
    assert isinstance(value, CLASSES[made]), made
    if not isinstance(value, tuple):
        assert parse(str(value)) == value


NOT_WORD_FOR_WORD = {
    "gmem_tensor_symbols",  # ?{i64 div=8}: the width of an unknown is not kept
    "identity_tensor",  # tensor<...> around a coordinate tensor is not kept
    "identity_tensor_dynamic_tile",
    "identity_tensor_tile",
    "layout_dynamic_divisible",  # ?{div=8}, printed 8*?
    "rmem_vector",  # blanks in a Python tuple
    "shape_nested",
    "tmem_load_coordinate",
    "tmem_load_coordinates",
    "tmem_load_coordinates_slice",
}


def test_recorded_dsl_text_is_printed_back_word_for_word() -> None:
    assert len(DSL) > 50
    differing = {p.stem for p in DSL if word_for_word(parse(p.read_text())) != p.read_text()}
    assert differing == NOT_WORD_FOR_WORD


def word_for_word(x: Any) -> str:
    if not isinstance(x, tuple):
        return str(x)
    # A tuple of layouts prints as Python prints it.
    return str(x)[:-1].replace(",)", ")") + ")" if all(isinstance(e, Layout) for e in x) else to_text(x)


def test_dsl_text_with_unknowns() -> None:
    x = parse("tensor<ptr<f32, gmem, align<16>> o (?{div=8},?):(?{i64 div=8},1)>")
    assert x.layout == Layout((8 * Sym("?"), Sym("?")), (8 * Sym("?"), 1))
    assert to_text(x.layout) == "(?{div=8},?):(?{div=8},1)"


@pytest.mark.parametrize("line", CPP_LINES)
def test_recorded_cpp_lines(line: str) -> None:
    label, _, text = line.partition(":")
    value = parse(text.strip())
    assert parse(str(value)) == value or isinstance(value, tuple)
    kind = (
        tuple
        if label.startswith("mma_shape")
        else Tensor
        if ("ptr[" in text and "unset" not in text) or "Iterator" in text or "tmem_" in text
        else ComposedLayout
    )
    assert isinstance(value, kind)


def test_cpp_swizzles_count_bytes_beside_elements() -> None:
    wanted = ComposedLayout(Swizzle(3, 4, 3, 8), 0, Layout((8, 64), (64, 1)), 16)
    assert parse("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)") == wanted
    assert parse_layout("Sw<3,4,3>_smem_ptr[16b](0x7f2000000400) o (_8,_64):(_64,_1)") == wanted
    assert parse_layout("Sw<3,4,3>_smem_ptr[16b](unset) o (_8,_64):(_64,_1)") == wanted
    assert wanted(1, 0) == 72
    assert parse("Sw<3,4,3> o _0 o (_8,_64):(_64,_1)") == ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1)))


def test_cpp_blocks_hold_what_the_dsl_prints_for_the_same_copy() -> None:
    mma = parse((DATA / "printed_cpp" / "tiled_mma.txt").read_text())
    assert isinstance(mma, TiledMma) and mma.atom.shape_mnk == (128, 256, 16) and mma.permutation == (None,) * 3
    assert mma.atom.c == Layout((1, (128, 256)), (0, (1, 128)))
    copy = parse((DATA / "printed_cpp" / "tiled_copy.txt").read_text())
    assert isinstance(copy, TiledCopy) and copy.tiler == (128, 64) and copy.atom.value_type == "16b"
    atom = parse((DATA / "printed_cpp" / "copy_atom.txt").read_text())
    assert atom == copy.atom and atom.ref == Layout((1, 8192), (0, 1))
    for value in (mma, copy, atom, mma.atom):
        assert parse(str(value)) == value
    assert isinstance(parse(str(mma.atom)), MmaAtom)


pycute_ints = st.integers(1, 64)


@given(st.data())
def test_pycute_prints_what_we_print_and_its_repr_is_read(data: st.DataObject) -> None:
    shape = data.draw(profiles(pycute_ints).filter(lambda t: t != () and "()" not in str(t)))
    stride = unflatten([data.draw(st.integers(0, 99)) for _ in flatten(shape)], shape)
    ours, theirs = Layout(shape, stride), pycute.Layout(shape, stride)
    assert to_text(ours, "pycute") == str(theirs)
    assert parse(str(theirs)) == parse(repr(theirs)) == ours


def test_pycute_swizzles() -> None:
    theirs = pycute.ComposedLayout(pycute.Swizzle(3, 3, 3), 0, pycute.Layout((8, 64), (64, 1)))
    ours = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    assert to_text(ours, "pycute") == str(theirs)
    assert parse(str(theirs)) == parse(repr(theirs)) == ours
    assert [theirs(i) for i in range(512)] == [ours(i) for i in range(512)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5:1", Layout(5, 1)),
        ("(5,):(1,)", Layout((5,), (1,))),
        ("(5):(1)", Layout((5,), (1,))),
        (" ( 8 , 64 ) : ( 64 , 1 ) ", Layout((8, 64), (64, 1))),
        ("(M,N):(N,1)", Layout((Sym("M"), Sym("N")), (Sym("N"), 1))),
        ("4*N", 4 * Sym("N")),
        ("(_4,_2):(_1@0,_1@1)", Layout((4, 2), (Basis(1, (0,)), Basis(1, (1,))))),
        ("1@1@0", Basis(1, (0, 1))),
        ("4*N@0", Basis(4 * Sym("N"), (0,))),
        ("(4,2):(_-1,-8)", Layout((4, 2), (-1, -8))),
        ("_", None),
        ("(_,3)", (None, 3)),
        ("((128,32):(32,1), 1:0)", (Layout((128, 32), (32, 1)), Layout(1, 0))),
        ("S<3,4,3>[8b]", Swizzle(3, 4, 3, 8)),
        ("S<3,4,-3>", Swizzle(3, 4, -3)),
        ("S<3,4,3> o (8,64):(64,1)", ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1)))),
        ("tmem_[32b](0x0040.0000)", Pointer(None, 32, "tmem", address="(0x0040.0000)")),
        (
            "UMMA::DescriptorIterator o (_1,_4):(_0,_2)",
            Tensor(Opaque("UMMA::DescriptorIterator"), Layout((1, 4), (0, 2))),
        ),
        ('!cute.layout<"(4,2):(1,4)">', Layout((4, 2), (1, 4))),
        ('!cute.swizzle<"S<3,4,3>">', Swizzle(3, 4, 3)),
        ('!cute.composed_layout<"S<3,5,4> o 2 o 8:1">', ComposedLayout(Swizzle(3, 5, 4), 2, Layout(8, 1))),
        ('!cute.memref<f16, gmem, align<16>, "8:1">', Tensor(Pointer("f16", 16, "gmem", 16), Layout(8, 1))),
        ("!cute.ptr<f16, smem, align<4>>", Pointer("f16", 16, "smem", 4)),
        ("(Int32(?), 5)", (Sym("?"), 5)),
    ],
)
def test_small_forms(text: str, value: Any) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        ("f16", 16),
        ("bf16", 16),
        ("tf32", 32),
        ("f8E4M3FN", 8),
        ("f4E2M1FN", 4),
        ("f6E3M2FN", 6),
        ("i1", 1),
        ("16b", None),
    ],
)
def test_widths_of_element_types(dtype: str, bits: int | None) -> None:
    assert bits_of(dtype) == bits


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Layout<Shape<_8,_64>,Stride<_64,_1>>{}", Layout((8, 64), (64, 1))),
        ("Layout<Shape<_8, Shape<_2,_4>>>", Layout((8, (2, 4)))),
        (
            "cute::Layout<cute::tuple<cute::C<8>, int>, cute::tuple<cute::C<1>, cute::C<8>>>",
            Layout((8, Sym("?")), (1, 8)),
        ),
        ("cute::Layout<cute::C<8>, cute::constant<int, 2>>", Layout(8, 2)),
        ("const cute::Swizzle<3, 4, 3>", Swizzle(3, 4, 3)),
        ("cute::Swizzle<3, 4, 3>", Swizzle(3, 4, 3)),
        ("cute::tuple<cute::_4, cute::Underscore>", (4, None)),
        (
            "cute::ComposedLayout<cute::Swizzle<3,4,3>, cute::smem_ptr_flag_bits<16>, "
            "cute::Layout<cute::tuple<cute::C<8>, cute::C<64> >, cute::tuple<cute::C<64>, cute::C<1> > > >",
            ComposedLayout(Swizzle(3, 4, 3, 8), 0, Layout((8, 64), (64, 1)), 16),
        ),
        (
            "ComposedLayout<Swizzle<3,3,3>, _0, Layout<Shape<_8,_64>,Stride<_64,_1>>>",
            ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))),
        ),
        (
            "Layout<Shape<_4,_2>, Stride<ScaledBasis<C<1>,1>, ScaledBasis<C<3>,0,1>>>",
            Layout((4, 2), (Basis(1, (1,)), Basis(3, (0, 1)))),
        ),
    ],
)
def test_cpp_types_as_source_and_compilers_spell_them(text: str, value: Any) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Layout<Shape<_8,_64>,Stride<_64>>", "shape (8,64) and stride (64) are nested differently"),
        ("Layout<Shape<_8,_64>", "expected ',' or '>' at column 21, the text ends"),
        ("Layout<float>", "expected a type of CuTe's, such as Layout<Shape<_8,_64>,Stride<_64,_1>> at column 8"),
        ("ComposedLayout<_1,_0,Layout<_8>>", "is of a swizzle or layout, an offset, and a layout"),
        ("<cutlass.cute.atom.TiledCopy object at 0x7f9b5f38e450>", "print(object) shows the layout"),
    ],
)
def test_cpp_types_that_are_none_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(LayoutError) as e:
        parse(text)
    assert sentence in str(e.value)


# -- refusals ---------------------------------------------------------------------------------------------------------

REFUSED = [
    # (text, what is wrong with it, the column that the caret stands under in its last line)
    ("", "expected a layout, such as (8,64):(64,1) at column 1, the text ends", 1),
    ("(8,64", "expected ',' or ')' at column 6, the text ends", 6),
    ("(8,64):(64,1) junk", "expected the end of the text at column 15, found 'j'", 15),
    ("(8,64) (64,1)", "expected ':' and the strides, or the end at column 8, found '('", 8),
    ("(8,64):(64)", "shape (8,64) and stride (64) are nested differently", 1),
    ("(8,64:(64,1)", "shape 64 and stride (64,1) are nested differently", 4),
    ("(8,0):(1,8)", "shape (8,0) has the extent 0: extents are positive integers", 1),
    ("(8,-4):(1,8)", "shape (8,-4) has the extent -4: extents are positive integers", 1),
    ("(8,_):(1,8)", "'_' stands where a shape or a stride has a number", 1),
    ("(8,1.5):(1,8)", "expected ',' or ')' at column 5, found '.'", 5),
    ("S<3,4> o 8:1", "expected ',' and the shift: a swizzle is S<bits,base,shift> at column 6, found '>'", 6),
    ("S<3,4,2>", "S<3,4,2>: a shift of 2 makes the 3 bits overlap their own sources", 1),
    ("(4,6):(2,3) o 6:3", "two layouts and 'o': composition((4,6):(2,3), 6:3) is their composition", 1),
    ("S<3,4,3> o 0 o (8,64)", "the last part of a composition is a layout, shape:stride", 16),
    ("4:1@", "expected the number of a mode, below 1000, after '@' at column 5, the text ends", 5),
    ("ptr<what, smem>", "expected an element type such as bf16 at column 9, found ','", 9),
    ("Tiled Copy\n  Colour: red", "'Colour' is no line of a printed copy or MMA", 3),
    ("Tiled Copy\n  Tiler MN: (8:1;8:1)", "expected ',' or ')' at line 2, column 17, found ';'", 17),
]


@pytest.mark.parametrize(("text", "sentence", "column"), REFUSED)
def test_refusals_say_what_and_where(text: str, sentence: str, column: int) -> None:
    with pytest.raises(LayoutError) as e:
        parse(text)
    last = text.rsplit("\n", 1)[-1]
    assert str(e.value) == f"{sentence}\n  {last}\n  {' ' * (column - 1)}^"


def test_a_block_that_is_not_whole_is_refused() -> None:
    with pytest.raises(LayoutError, match="no line 'TV Layout tiled' under 'Tiled Copy': was all of it pasted"):
        parse("Tiled Copy\n  Tiler MN: (8:1,8:1)")


def test_the_caret_stands_under_the_place_in_a_long_line() -> None:
    with pytest.raises(LayoutError) as e:
        parse(f"({'1,' * 500}x y{',1' * 500})")
    sentence, line, caret = str(e.value).split("\n")
    assert sentence.startswith("expected ',' or ')' at column 1004") and len(line) < 90
    assert line[caret.index("^")] == "y"


characters = list("(),:_-+*@?<>[]{}=\"' \n0123456789ABCSwox%o")
fragments = [" o ", "S<3,4,3>", "ptr<", "tensor<", "align<", "smem_ptr[16b](", "Layout(", "OpResult(", "gmem_"]
fragments += [
    "Layout<",
    "Shape<_8>",
    "cute::",
    "C<4>",
    "Swizzle<",
    "ComposedLayout<",
    "int",
    "ThrID: ",
    "8:1",
    "1@0",
    "SW_",
    "?{div=8}",
    "Tiled Copy\n",
    "Copy Atom\n",
]
alphabet = st.sampled_from([*characters, *fragments])


@given(st.text(max_size=40) | st.lists(alphabet, max_size=25).map("".join))
@example('OpResult(" o 8:1')
@example("[8b]8:1")
@example("tensor<" * 9)
@example("Layout(8:1,8:1)")
@example("Layout(_,_)")
@example("ComposedLayout(_,_,8:1)")
@example("S<3,4,3>_")
@example("1@99999999999999999999")
@settings(max_examples=2000, deadline=None)
def test_random_text_is_read_or_refused(text: str) -> None:
    try:
        value = parse(text)
    except LayoutError as e:
        assert str(e)
    else:
        assert value is None or str(value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10**6,
        "(" * 10**5 + "1" + ")" * 10**5,
        "(" + "1," * 499_000 + "1)",
        "(" + "1," * 200_000 + "1):(" + "0," * 200_000 + "0)",
        "9" * 10**6,
        "N+" * 400_000 + "N",
        "N*" * 400_000 + "N",
        "+".join(f"n{i}" for i in range(100_000)),
        "tensor<" * 10**5,
        "Layout(" * 10**5,
        "tensor<OpResult(" + "(" * 10**6,
        "S<3,4,3> o " * 10**5,
        " " * 10**6,
        "Tiled Copy\n" * 50_000,
        '"' * 10**6,
        "ptr<f16" + ", align<1>" * 10**5,
        "a" * 10**6,
        "?" + "{" * 10**6,
        "(2," * 63 + "2" + ")" * 63,
        "4:1" + "@0" * 10**5,
        "4:1@" + "9" * 10**5,
        "?{div=" + "9" * 10**5 + "}",
        "8:1 o [" + "9" * 10**5 + "b]8:1",
        "ptr<f" + "9" * 10**5 + ">",
        "smem_ptr[" + "9" * 10**5 + "b]",
        "SW_" + "9" * 10**5 + "_1_1",
        "S<" + "9" * 10**5 + ",1,1>",
        "Layout<_" + "9" * 10**5 + ">",
        "cute::C<" + "9" * 10**5 + ">",
        "tensor_value<vector<" + "9" * 10**5 + "xf32> o 1>",
    ],
    ids=lambda t: f"{t[:12]!r}...{len(t)}",
)
def test_long_and_deep_text_ends(text: str) -> None:
    try:  # one that backtracks would never end
        parse(text)
    except LayoutError as e:
        assert len(str(e)) < 1000


def test_reading_imports_nothing_heavy() -> None:
    code = (
        "import sys; from layoutlab.text import parse; parse('(8,64):(64,1)');"
        "print([m for m in ('numpy', 'sympy', 'cutlass') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_profiles_are_nested() -> None:
    assert congruent(parse("((4,2),(3,(2,2)))"), ((1, 1), (1, (1, 1))))


RAW = "raw_ptr(0x000000000736b0c0: f32, generic, align<4>) o (8,5):(5,1)"


@pytest.mark.parametrize("text", [
    f"tensor({RAW}, data=[...])",
    f"tensor({RAW}, data=\n       [[-0.4326,  1.0e-3, ... ],\n [-1.6656,  0.2, ],\n  ...\n  [ 1, nan, ]])",
    f"tensor({RAW})",
    RAW,
])  # fmt: skip
def test_a_tensor_as_a_running_kernel_prints_it(text: str) -> None:
    pointer = Pointer("f32", 32, "generic", 4, None, "(0x000000000736b0c0)")
    found = parse(text)
    assert found == Tensor(pointer, Layout((8, 5), (5, 1)))
    assert parse(str(found)) == found


@pytest.mark.parametrize("text", [f"tensor({RAW}, data=[[1, 2)", f"tensor({RAW}, size=4)", "raw_ptr(f32, generic)"])
def test_a_tensor_that_is_cut_off_is_refused(text: str) -> None:
    with pytest.raises(LayoutError):
        parse(text)


def test_a_raw_pointer_keeps_its_swizzle_of_bytes() -> None:
    found = parse("raw_ptr(0x400: f16, smem, align<1024>, S<3,4,3>) o (8,64):(64,1)")
    assert found.swizzled_layout() == parse("S<3,4,3>[8b] o 0 o [16b](8,64):(64,1)")


def test_a_host_tensor_has_an_address_and_a_memory_but_no_type() -> None:
    found = parse("Tensor<0x00007f3a12000000@gmem o (128, 64):(64, 1)>")
    assert found.layout == Layout((128, 64), (64, 1))
    assert isinstance(found.iterator, Opaque) and found.iterator.space == "gmem"
    assert parse(str(found)) == found
    assert Opaque("smem_desc_view<x@gmem>").space is None


def test_a_swizzle_before_a_pointer_with_an_address_is_a_tensor_in_shared_memory() -> None:
    found = parse("Sw<3,4,3> o smem_ptr[16b](0x7f2c) o (_8,_64):(_64,_1)")
    assert found == parse("Sw<3,4,3>_smem_ptr[16b](0x7f2c) o (_8,_64):(_64,_1)")
    assert found.iterator.space == "smem" and found.iterator.swizzle == Swizzle(3, 4, 3, 8)
    waiting = parse("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)")
    assert waiting == found.swizzled_layout()
