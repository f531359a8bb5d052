"""Compiles quack's kernels with CuTe DSL on a machine without a GPU, for `layoutlab trace`.

layoutlab trace tests/strangers/quack_kernels.py:softmax --arch sm_90a
"""

from __future__ import annotations

import os

ARCH = os.environ.get("CUTE_DSL_ARCH", "sm_90a")

import torch  # noqa: E402

from flash_attn_fwd import stand_in  # noqa: E402, F401 (answers for the device)
