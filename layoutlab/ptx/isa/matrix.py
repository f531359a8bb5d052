"""matrix: ldmatrix, stmatrix, movmatrix and mma.sync (PTX ISA 9.7.14)."""

from __future__ import annotations
