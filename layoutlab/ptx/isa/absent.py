"""absent: instructions that exist and that the machine does not emulate yet, by the beginning of their opcode.

A kernel that has one stops with its PTX line and the name that stands here, so that its author need not guess whether
the text or the machine is at fault.
"""

from __future__ import annotations

from layoutlab.ptx.registry import not_emulated

NOT_EMULATED = {
    r"tcgen05\.mma\.sp\b": "sparse tcgen05.mma",
    r"tcgen05\.mma\.ws\b": "tcgen05.mma.ws, the weight-stationary form",
    r"tcgen05\.mma\..*(block_scale|kind::mx)": "block-scaled tcgen05.mma",
    r"tcgen05\.cp\b": "tcgen05.cp, copies from shared to tensor memory,",
    r"tcgen05\.shift\b": "tcgen05.shift",
    r"tcgen05\.ld\.red\b": "tcgen05.ld.red, loads that reduce,",
    r"wgmma\.mma_async\.sp\b": "sparse wgmma",
    r"mma\.sp(::ordered_metadata)?\b": "sparse mma",
    r"mma\.sync\..*(block_scale|kind::)": "block-scaled mma",
    r"wmma\b": "wmma, the older form of mma,",
    r"cp\.async\.bulk\.(prefetch\.)?tensor\..*(im2col|::gather4|::scatter4)": "TMA by im2col, gather or scatter",
    r"cp\.reduce\.async\.bulk\.shared::cluster\b": "bulk reductions into another CTA",
    r"bar(rier)?(\.cta)?\.red\b": "a barrier that reduces a predicate",
    r"red\.async\b": "red.async, reductions into another CTA,",
    r"multimem\b": "multimem, memory of several devices,",
    r"clusterlaunchcontrol\b": "clusterlaunchcontrol, CTAs that take over others' work,",
    r"tensormap\.replace\b": "tensormap.replace, tensor maps changed by the kernel,",
    r"(tex|tld4|txq|suld|sust|sured|suq)\b": "the instruction of textures and surfaces",
    r"(vadd|vsub|vmin|vmax|vset|vshl|vshr|vmad|vabsdiff)\d?\b": "a video instruction",
    r"(alloca|stacksave|stackrestore)\b": "a stack",
    r"(ld|st)\.matrix\b|ldmatrix\b|stmatrix\b": "this shape of ldmatrix or stmatrix",
}

for pattern, name in NOT_EMULATED.items():
    not_emulated(pattern, name)
