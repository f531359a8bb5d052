"""Settings: a function's annotated arguments as the choices of a handoff.

>>> from typing import Literal
>>> def p_tile(kv: Literal[64, 128] = 128, base: int = 0): ...
>>> settings = Settings.of(p_tile)
>>> settings.accept({"kv": "64"}), settings.combinations()
({'kv': 64}, [{'kv': 64}, {'kv': 128}])
>>> settings.accept({"kw": "64"})
Traceback (most recent call last):
layoutlab.errors.LayoutError: p_tile has no setting kw; did you mean kv? Its settings are kv, base
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from layoutlab.errors import LayoutError
from layoutlab.symbol import Sym


@dataclass(frozen=True)
class MultipleOf:
    """What a whole number may be: the multiples of `unit` from `least` on, by default from the unit itself on.

    >>> def p_tile(kv: Annotated[int, MultipleOf(64)] = 128, base: Annotated[int, MultipleOf(16, least=0)] = 0): ...
    >>> print(*Settings.of(p_tile).entries, sep=", ")
    kv=a multiple of 64 (default 128), base=a multiple of 16, or 0 (default 0)

    Such a setting can be a symbol: `verify --for-all` proves a handoff for all of its values at once.
    """

    unit: int
    least: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.unit, int) or self.unit < 1 or self.first < 0 or self.first % self.unit:
            raise LayoutError(f"{self.unit} and least={self.least}: a positive unit, and a multiple of it are needed")

    @property
    def first(self) -> int:
        """The least value."""
        return self.unit if self.least is None else self.least

    def __str__(self) -> str:
        if self.unit == 1:
            return f"any number from {self.first} on"
        other = "" if self.first == self.unit else ", or 0" if self.first == 0 else f", at least {self.first}"
        return f"a multiple of {self.unit}{other}"


@dataclass(frozen=True)
class Setting:
    """One argument: the values it may have, or the type it is read as."""

    name: str
    kind: type
    choices: tuple[Any, ...]
    default: Any
    required: bool
    multiple: MultipleOf | None = None

    def accept(self, value: Any, owner: str) -> Any:
        """The value itself, or a text read as the annotation says; refuses others with the nearest one."""
        if self.choices:
            for choice in self.choices:
                if value == choice and type(value) is type(choice):
                    return choice
            for choice in self.choices:
                if isinstance(value, str) and value == str(choice):
                    return choice
            raise LayoutError(
                f"{owner}: {self.name}={value} is not one of {', '.join(map(repr, self.choices))}"
                f"{nearest(str(value), [str(c) for c in self.choices])}"
            )
        if self.multiple and not isinstance(value, Sym):
            return self._multiple(value, owner)
        if not isinstance(value, str) or self.kind is str:
            if isinstance(value, Sym) and self.multiple:
                return value
            if isinstance(value, self.kind) and not (self.kind is int and isinstance(value, bool)):
                return value
            raise LayoutError(f"{owner}: {self.name}={value!r} is no {self.kind.__name__}")
        try:
            return _READ[self.kind](value)
        except (KeyError, ValueError):
            raise LayoutError(f"{owner}: {self.name}={value} is no {self.kind.__name__}") from None

    def _multiple(self, value: Any, owner: str) -> int:
        assert self.multiple is not None
        try:
            number = int(value, 0) if isinstance(value, str) else value
        except ValueError:
            number = None
        if isinstance(number, bool) or not isinstance(number, int):
            raise LayoutError(f"{owner}: {self.name}={value} is no int")
        if number < self.multiple.first or number % self.multiple.unit:
            near = max(self.multiple.first, number // self.multiple.unit * self.multiple.unit)
            raise LayoutError(f"{owner}: {self.name}={number} is not {self.multiple}: {near} would be")
        return number

    def __str__(self) -> str:
        values = "|".join(map(str, self.choices)) if self.choices else str(self.multiple or self.kind.__name__)
        return f"{self.name}={values}" + ("" if self.required else f" (default {self.default})")


def _bool(text: str) -> bool:
    return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]


_READ: dict[type, Callable[[str], Any]] = {int: lambda text: int(text, 0), float: float, bool: _bool}


@dataclass(frozen=True)
class Settings:
    """All arguments of a handoff function."""

    owner: str
    entries: tuple[Setting, ...]
    function: Callable[..., Any] | None = field(default=None, repr=False, compare=False)
    """What they are the arguments of."""

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Settings:
        """The settings of a function; refuses an argument whose annotation says no values."""
        hints = get_type_hints(function, include_extras=True)
        return cls(
            function.__name__,
            tuple(
                _setting(p, hints.get(name), function.__name__)
                for name, p in inspect.signature(function).parameters.items()
            ),
            function,
        )

    def accept(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Checked values for the settings named; refuses an unknown name with the nearest that there is."""
        known = {entry.name: entry for entry in self.entries}
        for name in values:
            if name not in known:
                listed = f" Its settings are {', '.join(known)}" if known else " It has no settings"
                hint = nearest(name, list(known)) or "."
                raise LayoutError(f"{self.owner} has no setting {name}{hint}{listed}")
        return {name: known[name].accept(value, self.owner) for name, value in values.items()}

    def complete(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """All settings: the given ones, and the defaults of the rest."""
        given = self.accept(values)
        missing = [e.name for e in self.entries if e.required and e.name not in given]
        if missing:
            raise LayoutError(f"{self.owner} needs a value for {', '.join(missing)}")
        return {entry.name: given.get(entry.name, entry.default) for entry in self.entries}

    def combinations(self) -> list[dict[str, Any]]:
        """Every combination of the settings that list their values; the rest keep their defaults."""
        choosing = [entry for entry in self.entries if entry.choices]
        names = [entry.name for entry in choosing]
        return [dict(zip(names, values, strict=True)) for values in product(*(entry.choices for entry in choosing))]


def nearest(wanted: str, there: Sequence[str]) -> str:
    """The question whether the nearest name was meant, first one that differs in case; nothing where none is near.

    >>> nearest("composit", ["coordinate", "composition"])
    '; did you mean composition?'
    """
    same = [name for name in there if name.lower() == wanted.lower()]
    found = same or difflib.get_close_matches(wanted, there, 1, 0.3)
    return f"; did you mean {found[0]}?" if found else ""


def _setting(parameter: inspect.Parameter, hint: Any, owner: str) -> Setting:
    required = parameter.default is inspect.Parameter.empty
    default = None if required else parameter.default
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise LayoutError(f"{owner} takes *{parameter.name}: settings are named arguments")
    if get_origin(hint) is Literal:
        return Setting(parameter.name, type(get_args(hint)[0]), get_args(hint), default, required)
    if get_origin(hint) is Annotated:
        kind, *notes = get_args(hint)
        multiple = next((note for note in notes if isinstance(note, MultipleOf)), None)
        if multiple is None or kind is not int:
            raise LayoutError(
                f"{owner}: the setting {parameter.name} is annotated {hint}: Annotated[int, MultipleOf(64)]"
            )
        return Setting(parameter.name, int, (), default, required, multiple)
    kind = hint if hint is not None else type(default)
    if kind not in (int, str, bool, float):
        raise LayoutError(
            f"{owner}: the setting {parameter.name} is annotated {hint}: Literal, int, str, bool or float say values"
        )
    return Setting(parameter.name, kind, (), default, required)
