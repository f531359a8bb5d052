"""Reads layouts as CuTe DSL prints them and evaluates them with numpy: a second reader beside layoutlab's own."""

import re
from dataclasses import dataclass

import numpy as np

TOKEN = re.compile(r"\s*([(),]|\d+(?:@\d+)*)")


def nested(text):
    """'(4,(2,3))' -> (4, (2, 3)); a basis entry '2@1@0' -> its text, a coordinate path with its step."""
    tokens = TOKEN.findall(text)
    assert "".join(tokens) == text.replace(" ", ""), f"cannot read {text}"

    def entry():
        token = tokens.pop(0)
        if token != "(":
            return int(token) if token.isdigit() else token
        entries = []
        while tokens[0] != ")":
            entries.append(entry())
            if tokens[0] == ",":
                tokens.pop(0)
        tokens.pop(0)
        return tuple(entries)

    return entry()


def flat(tree):
    """The leaves of a nested tuple."""
    return [leaf for branch in tree for leaf in flat(branch)] if isinstance(tree, tuple) else [tree]


@dataclass
class Printed:
    """shape:stride, perhaps under a swizzle that acts on what it yields."""

    shape: tuple
    stride: tuple
    swizzle: tuple | None = None

    @property
    def size(self):
        return int(np.prod(flat(self.shape)))

    def outer(self, index):
        """The value at colexicographic indices, the swizzle left out."""
        index, total = np.asarray(index), 0
        for size, step in zip(flat(self.shape), flat(self.stride), strict=True):
            total = total + index % size * step
            index = index // size
        return total

    def __call__(self, index):
        return swizzled(self.outer(index), self.swizzle)

    def coordinates(self, index):
        """The values (m, k) at indices, where the strides are bases 1@0, 1@1."""
        found = []
        for axis in ("0", "1"):
            steps = tuple(basis_step(step, axis) for step in flat(self.stride))
            found.append(Printed(self.shape, steps).outer(index))
        return tuple(found)


def basis_step(step, axis):
    """How far a basis step ('32@1', or the number 0) goes along an axis."""
    count, _, path = str(step).partition("@")
    return int(count) if path == axis else 0


def swizzled(value, swizzle):
    """Bits [base, base+bits) xor bits `shift` above them."""
    if swizzle is None:
        return value
    bits, base, shift = swizzle
    return value ^ (value >> shift & (2**bits - 1) << base)


def layout(text):
    """'S<3,4,3> o 0 o (8,64):(64,1)' or '(8,64):(64,1)'."""
    found = re.fullmatch(r"(?:S<(\d+),(\d+),(\d+)> o 0 o )?([^:<>]+):([^:<>]+)", text)
    assert found, f"cannot read {text}"
    swizzle = tuple(map(int, found.groups()[:3])) if found[1] else None
    return Printed(nested(found[4]), nested(found[5]), swizzle)


def tensor(text):
    """'tensor<ITERATOR o LAYOUT>' -> (iterator text, layout)."""
    found = re.fullmatch(r"tensor<(ptr<.*?>>|ptr<[^<>]*(?:<\d+>)?>|\([^o]*\)) o (.+)>", text)
    assert found, f"cannot read {text}"
    return found[1], layout(found[2])


def pointer_swizzle(iterator):
    """The swizzle of byte addresses that a printed shared-memory pointer carries."""
    found = re.search(r", S<(\d+),(\d+),(\d+)>>", iterator)
    return tuple(map(int, found.groups())) if found else None
