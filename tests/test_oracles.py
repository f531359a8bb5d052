"""Each operation against CuTe DSL, pycute and tensor-layouts: the same text, or a disagreement known by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import laws
import pytest
import strangers
from hypothesis import HealthCheck, given, settings
from known_disagreements import KNOWN, Disagreement
from operands import Call, calls
from silent_answers import SILENT
from strangers import Answer, ask, expression

from layoutlab import Layout, LayoutError

OPERATIONS = [
    "coalesce",
    "flatten",
    "filter",
    "filter_zeros",
    "composition",
    "complement",
    "logical_divide",
    "zipped_divide",
    "tiled_divide",
    "flat_divide",
    "logical_product",
    "zipped_product",
    "tiled_product",
    "flat_product",
    "blocked_product",
    "raked_product",
    "right_inverse",
    "left_inverse",
    "max_common_layout",
    "tile_to_shape",
    "make_ordered_layout",
    "recast_layout",
]
REGROUPS = {f"{how}_{what}": f"logical_{what}" for how in ("zipped", "tiled", "flat") for what in ("divide", "product")}
REGROUPS |= {"blocked_product": "logical_product", "raked_product": "logical_product"}


def broken(operation: str, args: tuple[Any, ...], answer: Answer, reference: Answer) -> str | None:
    """What is wrong with an answer by the operation's law; where it has none, by the answer that is tested by laws."""
    if isinstance(answer.value, str):
        return f"{answer.value} is no layout"
    if operation in laws.LAWS:
        return laws.LAWS[operation](*args, answer.value)
    return laws.same_function(reference.value, answer.value) if reference.value else "there is no result"


def judged(oracle: str, operation: str, args: tuple[Any, ...], text: str) -> str:
    """How an oracle's answer stands to ours: "same", or the kind of disagreement."""
    ours, theirs = ask("ours", text), ask(oracle, text)
    if ours.refused is None and operation in laws.LAWS:
        wrong = laws.LAWS[operation](*args, ours.value)
        assert wrong is None, f"{text} = {ours.value}: {wrong}"
    if theirs.refused is not None:
        return "same" if ours.refused is not None else "refuses"
    if ours.refused is None and str(theirs.value) == str(ours.value):
        return "same"
    if broken(operation, args, theirs, ours):
        return "wrong"
    assert ours.refused is None, f"{text}: {oracle} finds {theirs.value}, which is right; ours: {ours.refused}"
    return "form"


def compared(operation: str, args: tuple[Any, ...]) -> list[str]:
    """The oracles that say the same; refuses a disagreement of a kind that is not listed."""
    text, same = expression(operation, *args), []
    for oracle in strangers.ORACLES:
        if operation in strangers.LACKS[oracle]:
            continue
        kind = judged(oracle, operation, args, text)
        names = {operation, REGROUPS.get(operation)}
        known = {k.kind for k in KNOWN if k.oracle == oracle and k.operation in names}
        known |= {"wrong" for row in SILENT if row.package == oracle and row.operation in names}
        assert kind in {"same", *known}, f"{text}: {oracle} {kind}: {ask(oracle, text)}; ours {ask('ours', text)}"
        same += [oracle] if kind == "same" else []
    return same


@pytest.mark.parametrize("operation", OPERATIONS)
def test_answers_are_the_same_or_the_disagreement_is_known(operation: str) -> None:
    counts = Counter[str]()

    @given(calls(operation))
    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def compare(call: Call) -> None:
        counts.update(compared(*call))

    compare()
    for oracle in strangers.ORACLES:
        assert counts[oracle] > 20 or operation in strangers.LACKS[oracle], f"{oracle} agreed {counts[oracle]} times"


PRINTED_ALIKE = """
make_layout((4,1,8))
make_identity_layout((4,(2,8)))
coalesce(L(((2,4),(3,1)),((1,2),(8,9))), target_profile=(1,1))
coalesce(L(((2,4),(3,1)),((1,2),(8,9))), target_profile=(1,))
coalesce(make_identity_layout((4,(2,8))))
coalesce(S(2,0,2,3,L((2,4))))
composition(L((4,8)), 8)
composition(L((4,8)), (None,4))
composition(L((4,8)), (L(2,2),4))
composition(L((4,(2,4))), (2,(2,2)))
composition(L((4,1),(1,100)), L(8,1))
composition(L(1,5), L(4,1))
composition(L(8,1), L((1,4),(3,1)))
composition(L(8,2), L(4,-1))
composition(make_identity_layout((4,8)), L((2,4),(2,4)))
composition(L((4,8),(8,1)), L((2,4),(B(2,1),B(1,0))))
composition(L(((4,2),8),((1,40),4)), L((16,2),(B(1,0),B(1,1))))
composition(L(((4,2),8),((1,40),4)), L((4,2),(B(1,0,0),B(1,1))))
composition(L((4,2),(B(1,0),B(4,0))), L((2,2),(2,4)))
composition(S(2,0,2,0,L((4,8))), L((4,8),(8,1)))
complement(L((2,2),(1,6)), (4,6))
complement(L((2,2),(1,6)), L((4,6),(12,1)))
complement(L((4,2),(0,1)), 8)
logical_divide(L((10,1),(1,77)), L(4))
logical_divide(L((10,(4,3))), ((5,),(2,3)))
logical_divide(L((4,8)), (L(2,2),))
logical_divide(make_identity_layout((10,12)), (5,4))
logical_divide(make_identity_layout((10,12)), L(5))
zipped_divide(make_identity_layout((10,12)), (5,4))
zipped_divide(L((4,8,3)), (2,4))
zipped_divide(L((10,7),(7,1)), (4,3))
flat_divide(L((4,(2,4))), (2,(2,2)))
logical_product(L((2,5),(5,1)), (L(3,5),L(4,6)))
logical_product(L(4,1), L(3,0))
blocked_product(L(4), L((3,4)))
blocked_product(L((2,(2,2))), L((3,(4,5))))
blocked_product(S(1,0,1,0,L((2,2))), L((2,2)))
raked_product(L((2,(2,2))), L((3,(4,5))))
raked_product(L((16,16),(16,1)), L((8,1)))
tile_to_shape(S(3,3,3,0,L((8,64),(64,1))), (128,128,3), (0,1,2))
tile_to_shape(S(3,4,3,0,L((8,64),(64,1))), (96,192), (1,0))
tile_to_shape(L((8,64),(64,1)), ((2,64),128), (0,1))
tile_to_shape(L(8), (16,4), (0,1))
make_ordered_layout((4,(2,3),8),(2,(1,0),3))
make_ordered_layout((4,(2,3),8),(2,1,0))
make_ordered_layout(((4,2),8), ((5,2),7))
right_inverse(make_identity_layout((4,(2,8))))
right_inverse(L((8,4),(B(1,1),B(1,0))))
right_inverse(L((4,8),(B(1,1),B(1,2))))
left_inverse(L((8,4),(B(1,1),B(1,0))))
left_inverse(make_identity_layout((4,8)))
slice_(L((4,(2,8))), (None,(0,None)))
slice_(L((4,(2,8))), (1,None))
slice_(L((4,(2,8))), (1,(None,None)))
slice_(L((4,(2,8))), (None,3))
slice_(L((4,(2,8))), (1,(1,2)))
slice_((4,(2,8)), (None,(1,None)))
slice_(S(2,0,2,5,L((4,(2,8)))), (None,(0,None)))
slice_and_offset((None,(1,None)), L((4,(2,8))))[1]
dice(L((4,(2,8))), (None,(0,None)))
group_modes(L((2,3,4,5)), 1, 3)
group_modes(L((2,3,4,5)), 1)
flatten(L(((2,3),(4,(5,6)))))
select(L((2,3,4,5)), mode=[2,0])
append(L((2,3)), L(4,8), 4)
prepend(L(2), L(4,8), 3)
append_ones(L((2,3)), 4)
crd2idx((1,3), L((4,(2,8)),(100,(10,1))))
crd2idx((1,3), (4,(2,8)))
crd2idx((1,3), S(2,0,2,5,L((4,(2,8)))))
idx2crd(13, (4,(2,8)))
idx2crd((1,5), (4,(2,8)))
idx2crd(70, (4,(2,8)))
recast_layout(8, 16, S(3,3,3,0,L((8,64),(64,1))))
recast_layout(32, 16, S(3,3,3,2,L((8,64),(64,1))))
recast_layout(24, 8, L((2,3)))
recast_layout(32, 8, L((2,2),(1,2)))
max_common_vector(L((4,8),(8,1)), L((4,8),(8,1)))
max_common_layout(L((6,8),(1,10)), L((4,12),(1,10)))
size(L((4,(2,8))), mode=[1,1])
cosize(L((4,(2,8)),(100,(10,1))), mode=[1])
cosize(L((4,2),(1,-4)))
rank(L((4,(2,8))), mode=[1])
depth(L((4,(2,8))))
filter_zeros(L(((4,2),3),((0,1),0)))
"""


@pytest.mark.parametrize("text", PRINTED_ALIKE.split("\n")[1:-1])
def test_printed_as_the_dsl_prints(text: str) -> None:
    ours, theirs = ask("ours", text), ask("dsl", text)
    assert theirs.refused is None and ours.refused is None, (ours, theirs)
    assert str(ours.value) == str(theirs.value)


def test_modes_past_a_tiler_are_kept_where_the_dsl_drops_them() -> None:
    text = "composition(L((4,8)), (2,))"
    assert str(ask("dsl", text).value) == "(2):(1)"
    assert str(ask("ours", text).value) == str(ask("pycute", text).value) == "(2,8):(1,4)"


@pytest.mark.parametrize("known", KNOWN, ids=lambda k: f"{k.oracle}-{k.expression}")
def test_known_disagreement(known: Disagreement) -> None:
    """The stranger still says so, its answer is of that kind, and ours is right or rightly refused."""
    ours, theirs = ask("ours", known.expression), ask(known.oracle, known.expression)
    assert (theirs.refused is not None) == (known.theirs is None), theirs
    assert known.theirs is None or str(theirs.value) == known.theirs
    assert (ours.refused is not None) == (known.ours is None), ours
    assert known.ours is None or str(ours.value) == known.ours
    args = arguments(known.expression)
    assert judged(known.oracle, known.operation, args, known.expression) == known.kind


def arguments(text: str) -> tuple[Any, ...]:
    """The arguments of a call, as layoutlab's objects."""
    inside = text[text.index("(") :]
    value = eval(f"(lambda *args: args){inside}", dict(strangers.OURS))
    assert isinstance(value, tuple)
    return value


@pytest.fixture
def fresh_answers() -> Iterator[None]:
    ask.cache_clear()
    yield
    ask.cache_clear()


@pytest.mark.usefixtures("fresh_answers")
def test_a_disagreement_that_is_not_listed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: an oracle that is wrong about something else."""
    assert compared("coalesce", (Layout((2, 2), (1, 2)),)) == list(strangers.ORACLES)
    ask.cache_clear()
    monkeypatch.setitem(strangers.PYCUTE, "coalesce", lambda a: strangers.PYCUTE["L"](a.size(), 7))
    with pytest.raises(AssertionError, match="pycute wrong"):
        compared("coalesce", (Layout((2, 2), (1, 2)),))


@pytest.mark.usefixtures("fresh_answers")
def test_a_wrong_answer_of_ours_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(strangers.OURS, "right_inverse", lambda a: Layout(a.size(), 1))
    with pytest.raises(AssertionError, match=r"A\(R\(1\)\) = 2"):
        compared("right_inverse", (Layout(4, 2),))


@pytest.mark.usefixtures("fresh_answers")
def test_a_refusal_of_ours_where_there_is_a_result_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(a: Layout) -> Layout:
        raise LayoutError("no")

    monkeypatch.setitem(strangers.OURS, "right_inverse", refuse)
    with pytest.raises(AssertionError, match="dsl finds 4:1, which is right"):
        compared("right_inverse", (Layout(4, 1),))


def test_the_worker_survives_a_call_that_kills_it() -> None:
    dead = ask("dsl", "__import__('os').abort()")
    assert dead.refused and "died" in dead.refused
    assert str(ask("dsl", "L((4,2),(1,16))").value) == "(4,2):(1,16)"


def test_a_missing_oracle_is_no_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = strangers.DslWorker()
    monkeypatch.setattr(strangers.sys, "executable", "/bin/false")
    with pytest.raises((ImportError, AssertionError)):
        answer = worker.ask("L(4)")
        assert answer.refused is None, answer
    with pytest.raises(NameError):
        ask("pycute", "no_such_operation(L(4))")


def test_our_refusals_are_sentences() -> None:
    for known in KNOWN:
        if known.ours is None:
            with pytest.raises(LayoutError) as refusal:
                eval(known.expression, dict(strangers.OURS))
            assert len(str(refusal.value).split()) > 5
