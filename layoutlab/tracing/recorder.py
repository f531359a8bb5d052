"""Recorder: what a CuTe DSL kernel does to its buffers while it compiles, written down as texts.

The DSL's own public functions (partition_S, partition_D, make_fragment_A, tma_partition, ...) are wrapped from outside
while a recording lasts, so no kernel has to be touched; local names come from the frames of the functions that call
them. Nothing is kept that needs the compiler after the compile: every entry is a text or a number.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from types import FrameType, ModuleType
from typing import Any

from layoutlab.tracing.pointers import Pointers, raw_value, same, tensor_text
from layoutlab.tracing.record import Access, Trace
from layoutlab.tracing.registers import Registers

_PARTITIONS = ("partition_S", "partition_D")
_FRAGMENTS = ("make_fragment_A", "make_fragment_B")
_OPERANDS = ("partition_A", "partition_B", "partition_C")
_CALLERS = 6
_MOST = 20000
"""Names that one recording keeps at most: an unrolled kernel has more than anybody reads."""


@contextmanager
def recording(trace: Trace) -> Iterator[Trace]:
    """Fills a trace while kernels compile in this process; nested recordings are separate."""
    recorder = _Recorder(trace)
    recorder.wrap()
    before = sys.getprofile()
    sys.setprofile(recorder.returned)
    try:
        yield trace
    finally:
        sys.setprofile(before)
        recorder.unwrap()


class _Recorder:
    """The wrapped functions, and what they tell."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.pointers = Pointers()
        self.registers = Registers(self.pointers)
        self.wrapped: list[tuple[Any, str, Any]] = []
        self.own = _folders_of_others()
        self.user: dict[str, bool] = {}
        self.used: dict[int, set[str]] = {}

    # -- wrapping -----------------------------------------------------------------------------------------------------

    def wrap(self) -> None:
        """Puts the wrappers in place."""
        atom = importlib.import_module("cutlass.cute.atom")
        cpasync = importlib.import_module("cutlass.cute.nvgpu.cpasync")
        helpers = importlib.import_module("cutlass.cute.nvgpu.cpasync.helpers")
        for name in _PARTITIONS:
            self._method(atom.ThrCopy, name, self._partition)
        for name in _FRAGMENTS:
            self._method(atom.MmaAtom, name, self._fragment)
        for name in _OPERANDS:
            self._method(atom.ThrMma, name, self._operand)
        for module in (cpasync, helpers):
            self._function(module, "tma_partition", self._tma)
            self._maker(module, "make_tiled_tma_atom", 2)
        nvgpu = importlib.import_module("cutlass.cute.nvgpu")
        for module in (nvgpu, importlib.import_module("cutlass.cute.nvgpu.helpers")):
            for name in ("make_tiled_tma_atom_A", "make_tiled_tma_atom_B"):
                self._maker(module, name, 2)

        cute, algorithm = (importlib.import_module(name) for name in ("cutlass.cute", "cutlass.cute.algorithm"))
        for module in (cute, algorithm):
            self._after(module, "copy", self._copied, slice(1, 3))
            self._after(module, "autovec_copy", self._copied, slice(0, 2))
            self._after(module, "gemm", self._multiplied, slice(0, 3))
        self._method(atom.MmaAtom, "make_fragment_C", self._accumulator)
        self._after(importlib.import_module("cutlass.cute.tensor")._Tensor, "store", self._stored, slice(0, 2))
        if importlib.util.find_spec("cutlass.block") is not None:
            self._after(importlib.import_module("cutlass.block"), "block_copy", self._block, slice(0, 3))

    def unwrap(self) -> None:
        """Puts the DSL's own functions back, and forgets the roles that partitions have by name but not by use."""
        for number, roles in self.used.items():
            access = self.trace.accesses[number]
            if access.role not in roles:
                self.trace.accesses[number] = replace(access, role="partitions")
        for owner, name, real in reversed(self.wrapped):
            setattr(owner, name, real)

    def _put(self, owner: Any, name: str, real: Any, wrapper: Any) -> None:
        """Puts a wrapper in a function's place, also where a module has imported the function by its name.

        The wrapper poses as the DSL's own: so the compiler takes the line of whoever calls it for the source line.
        """
        wrapper.__code__ = wrapper.__code__.replace(co_filename=os.path.join(self.own[0], "layoutlab_watches.py"))
        places = [(owner, name)]
        if isinstance(owner, ModuleType):
            for module in list(sys.modules.values()):
                if isinstance(module, ModuleType):
                    places += [(module, key) for key, value in list(vars(module).items()) if value is real]
        for place, key in dict.fromkeys(places):
            self.wrapped.append((place, key, real))
            setattr(place, key, wrapper)

    def _method(self, owner: Any, name: str, told: Callable[..., None]) -> None:
        real = getattr(owner, name)

        def wrapper(this: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
            result = real(this, tensor, *args, **kwargs)
            self._tell(told, sys._getframe(1), name, this, tensor, result)
            return result

        self._put(owner, name, real, wrapper)

    def _function(self, owner: Any, name: str, told: Callable[..., None]) -> None:
        real = getattr(owner, name)

        def wrapper(atom: Any, coord: Any, layout: Any, smem: Any, gmem: Any, *args: Any, **kwargs: Any) -> Any:
            result = real(atom, coord, layout, smem, gmem, *args, **kwargs)
            self._tell(told, sys._getframe(1), name, atom, smem, result)
            return result

        self._put(owner, name, real, wrapper)

    def _after(self, owner: Any, name: str, told: Callable[..., None], what: slice) -> None:
        """Tells about a call's positional arguments after it."""
        real = getattr(owner, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            result = real(*args, **kwargs)
            if len(args) >= what.stop:
                self._tell(told, sys._getframe(1), name, *args[what])
            return result

        self._put(owner, name, real, wrapper)

    def _copied(self, frame: FrameType, name: str, source: Any, target: Any) -> None:
        spaces = _space(source), _space(target)
        if spaces == ("tmem", "rmem"):
            load = self.registers.access_of(source)
            if load is not None:
                self.registers.loaded(load, target)
        elif spaces in (("rmem", "smem"), ("rmem", "tmem")):
            store = self.registers.access_of(target)
            if store is not None:
                known = self.trace.brought.setdefault(store, [])
                known += sorted(self.registers.brought(source) - set(known))
        if spaces == ("smem", "rmem"):
            self._also(frame, "reads", name, source)
        elif spaces[1:] == ("smem",):
            self._also(frame, "writes", name, target)

    def _also(self, frame: FrameType, role: str, name: str, tensor: Any) -> None:
        """A partition used the other way round than its name says: threads read what they themselves wrote."""
        number = self.registers.access_of(tensor)
        if number is None:
            return
        self.used.setdefault(number, set()).add(role)
        if self.trace.accesses[number].role == role:
            return
        access = self.trace.accesses[number]
        texts = {**access.texts, "tv": access.texts.get("registers", access.texts["tv"])}
        self.trace.accesses.append(replace(access, role=role, call=name, by_name="", texts=texts, place=_place(frame)))

    def _stored(self, frame: FrameType, name: str, target: Any, data: Any) -> None:
        if _space(target) == "rmem":
            self.registers.stored(target, data)

    def _maker(self, owner: Any, name: str, layout_at: int) -> None:
        """Notes the shared-memory layout that a TMA atom is made with, by the atom's type."""
        real = getattr(owner, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            result = real(*args, **kwargs)
            layout = (
                args[layout_at]
                if len(args) > layout_at
                else next((value for key, value in kwargs.items() if "smem_layout" in key), None)
            )
            self._tell(self._made, sys._getframe(1), name, result[0] if isinstance(result, tuple) else result, layout)
            return result

        self._put(owner, name, real, wrapper)

    def _made(self, frame: FrameType, name: str, atom: Any, layout: Any) -> None:
        texts = self.trace.tma.setdefault(_atom_type(getattr(atom, "atom", atom)), [])
        if _text(layout) not in texts:
            texts.append(_text(layout))

    def _tell(self, told: Callable[..., None], frame: FrameType, *what: Any) -> None:
        """A recording must never end a compile: what cannot be written down is noted with the reason."""
        profile = sys.getprofile()
        sys.setprofile(None)
        try:
            told(frame, *what)
        except Exception as error:
            self.trace.failures.append(f"{what[0]} at {_place(frame)}: {type(error).__name__}: {error}".split("\n")[0])
        finally:
            sys.setprofile(profile)

    # -- what the wrappers tell ---------------------------------------------------------------------------------------

    def _partition(self, frame: FrameType, name: str, copy: Any, tensor: Any, result: Any) -> None:
        role = "reads" if name == "partition_S" else "writes"
        tv = copy.layout_src_tv_tiled if name == "partition_S" else copy.layout_dst_tv_tiled
        self._access(
            frame,
            role,
            "copy",
            name,
            copy,
            tensor,
            result,
            tv=_text(tv),
            registers=_text(copy.layout_dst_tv_tiled if role == "reads" else copy.layout_src_tv_tiled),
            tiler=_text(copy.tiler_mn),
            by=_text(copy),
            op=_text(getattr(copy, "op", "")),
        )
        if _space(tensor) in ("smem", "tmem"):
            self.registers.partition(result, len(self.trace.accesses) - 1)  # fmt: skip

    def _fragment(self, frame: FrameType, name: str, mma: Any, tensor: Any, result: Any) -> None:
        descriptors = "smem_desc" in _text(result)  # of registers otherwise: the copies into those read the buffer
        if _is_tensor(tensor) and (descriptors or _space(tensor) == "tmem"):
            self._access(
                frame, "reads", f"mma {name[-1]}", name, mma, tensor, result, by=_text(mma),
                op=_text(getattr(mma, "op", "")), result_layout=_text(getattr(result, "layout", "")),
            )  # fmt: skip

    def _accumulator(self, frame: FrameType, name: str, mma: Any, tensor: Any, result: Any) -> None:
        if _is_tensor(result) and _space(result) == "tmem":
            self._access(frame, "writes", "mma D", name, mma, result, result, by=_text(mma))

    def _multiplied(self, frame: FrameType, name: str, mma: Any, d: Any, a: Any) -> None:
        """A product writes its accumulator, and may read operand A where it lies in Tensor Memory too."""
        for role, kind, tensor in (("writes", "mma D", d), ("reads", "mma A", a)):
            if _is_tensor(tensor) and _space(tensor) == "tmem":
                self._access(frame, role, kind, name, mma, tensor, tensor, by=_text(mma))

    def _operand(self, frame: FrameType, name: str, mma: Any, tensor: Any, result: Any) -> None:
        self._access(frame, "partitions", f"mma {name[-1]}", name, mma, tensor, result, by=_text(mma))

    def _tma(self, frame: FrameType, name: str, atom: Any, tensor: Any, result: Any) -> None:
        if frame.f_code.co_filename.startswith(self.own[0]):
            return  # a copy of whole tiles, which is told of by itself
        kind = type(getattr(atom, "op", None)).__name__
        role = "writes" if "G2S" in kind else "reads" if "S2G" in kind or "Reduce" in kind else "partitions"
        smem = result[0] if isinstance(result, tuple) else result
        self._access(frame, role, "tma", name, atom, tensor, smem, by=_text(atom), op=_text(getattr(atom, "op", "")),
                     tiler=_atom_type(atom))  # fmt: skip

    def _block(self, frame: FrameType, name: str, atom: Any, source: Any, target: Any) -> None:
        """A copy of whole tiles, which the DSL partitions itself: by TMA, to or from shared memory."""
        role, tensor = ("writes", target) if _space(target) == "smem" else ("reads", source)
        if _is_tma(atom):
            self._access(frame, role, "tma", name, atom, tensor, tensor, by=_text(atom),
                         op=_text(getattr(atom, "op", "")), tiler=_atom_type(getattr(atom, "atom", atom)))  # fmt: skip

    def _access(
        self, frame: FrameType, role: str, kind: str, call: str, actor: Any, tensor: Any, result: Any, **texts: str
    ) -> None:
        space = _space(tensor)
        if space not in ("smem", "tmem"):
            return
        place = self.pointers.place_of(tensor)
        text = _text(tensor)
        self.trace.accesses.append(
            Access(
                role=role,
                kind=kind,
                call=call,
                space=space,
                tensor=text,
                tensor_name=_name_of(frame, tensor, self.pointers.chain),
                by_name=_name_of(frame, actor),
                result=_text(result),
                root=place.root,
                root_text=place.text,
                offset_bits=place.offset_bits,
                via=place.via,
                whole=place.whole,
                sliced_bits=place.sliced_bits,
                why=place.why,
                view=place.view or text,
                texts=dict(texts),
                function=_function(frame),
                place=_place(frame),
            )
        )

    # -- names --------------------------------------------------------------------------------------------------------

    def returned(self, frame: FrameType, event: str, _: Any) -> None:
        """At the end of each of the user's functions: its locals that are the DSL's objects, by name."""
        if event != "return" or len(self.trace.names) >= _MOST:
            return
        file = frame.f_code.co_filename
        mine = self.user.get(file)
        if mine is None:
            mine = self.user[file] = not file.startswith(self.own) and os.path.exists(file)
        if not mine:
            return
        sys.setprofile(None)
        try:
            for name, thing in list(frame.f_locals.items()):
                if _worth_a_note(thing):
                    self.trace.note(_function(frame), name, _text(thing))
        finally:
            sys.setprofile(self.returned)


@lru_cache(maxsize=1)
def _folders_of_others() -> tuple[str, ...]:
    """Where functions live that are nobody's kernels: the DSL, Python, and layoutlab itself."""
    spec = importlib.util.find_spec("cutlass")
    dsl = [os.path.dirname(spec.origin)] if spec and spec.origin else []
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = sysconfig.get_paths()
    return tuple([*dsl, here + os.sep, os.path.join(paths["stdlib"], ""), "<"])


_KINDS = ("_Tensor", "_Layout", "Layout", "ComposedLayout", "TiledCopy", "TiledMma", "Swizzle", "CopyAtom", "MmaAtom")


def _worth_a_note(thing: Any) -> bool:
    kind = type(thing)
    return kind.__module__.startswith("cutlass.") and any(base.__name__ in _KINDS for base in kind.__mro__)


def _text(thing: Any) -> str:
    """As the DSL prints it; what it cannot print is told so. Tensors are read off their types."""
    if _is_tensor(thing):
        value = raw_value(thing)
        text = tensor_text(str(value.type)) if value is not None else ""
        return text or f"<a tensor of {type(thing).__name__}>"
    try:
        return str(thing)
    except Exception as error:
        return f"<not printed: {type(error).__name__}>"


def _is_tma(atom: Any) -> bool:
    return "tma" in _atom_type(getattr(atom, "atom", atom))


def _atom_type(atom: Any) -> str:
    """The compiler's type of an atom, which says a TMA copy's box."""
    return _text(getattr(getattr(getattr(atom, "_trait", None), "value", None), "type", ""))


def _space(tensor: Any) -> str:
    value = raw_value(tensor) if _is_tensor(tensor) else None
    m = re.match(r"!cute\.memref<[^,]+, (\w+)", str(value.type)) if value is not None else None
    return m[1] if m else ""


def _is_tensor(thing: Any) -> bool:
    """Whether it is a tensor of the DSL; asked of its class, since its properties make the compiler work."""
    return any(base.__name__ == "_Tensor" for base in type(thing).__mro__)


def _name_of(frame: FrameType, thing: Any, chain: Sequence[Any] = ()) -> str:
    """The name of an object in the function that calls, or better in the ones that called that: helpers say `sA`.

    A tensor without a name of its own is called by the nearest one that it was made from.
    """
    found, at = "", frame
    own = _folders_of_others()[:1]
    while at.f_back is not None and at.f_code.co_filename.startswith(own):
        at = at.f_back  # the DSL's own functions call each other: their names are nobody's
    for _ in range(_CALLERS):
        nearest = len(chain)
        for name, value in list(at.f_locals.items()):
            if value is thing and name not in ("self", "this"):
                found, nearest = name, 0
            elif nearest and _is_tensor(value):
                raw = raw_value(value)
                position = next((i for i, link in enumerate(chain[:nearest]) if same(link, raw)), None)
                if position is not None:
                    found, nearest = name, position
        if at.f_back is None:
            break
        at = at.f_back
    return found


def _function(frame: FrameType) -> str:
    return frame.f_code.co_qualname.replace(".<locals>", "")


def _place(frame: FrameType) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
