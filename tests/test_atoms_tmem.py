"""Tensor Memory maps: doctests first, then each shape against other authors."""

from __future__ import annotations

import doctest

import layoutlab.atoms.tmem as module


def test_doctests():
    result = doctest.testmod(module)
    assert result.attempted > 10 and result.failed == 0
