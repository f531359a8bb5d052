"""wgmma: the warpgroup tensor core of sm_90a (PTX ISA 9.7.15)."""

from __future__ import annotations
