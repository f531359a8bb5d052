"""The errors that layoutlab raises: each is one sentence that says what, where, and what would be right."""

from __future__ import annotations

_INSTALLED_BY = {
    "ml_dtypes": "replay",
    "llvmlite": "replay",
    "cutlass": "nvidia-cutlass-dsl",
    "cuda": "cuda-python",
    "graphviz": "graphviz",
    "joblib": "joblib",
}
"""The extra of layoutlab, or the package, that brings a module which is imported where it is used."""


def install_hint(module: str) -> str:
    """What to install where a module is missing.

    >>> install_hint("llvmlite.binding")
    "llvmlite is not installed: this needs the extra 'replay': pip install 'layoutlab[replay]' (from a clone: pip \
install '.[replay]')"
    >>> install_hint("cutlass")
    'cutlass is not installed: pip install nvidia-cutlass-dsl'
    """
    name = module.partition(".")[0]
    if module == "layoutlab.kernels" or module.startswith("layoutlab.kernels."):
        return f"{module} is not installed: kernels come with an installed layoutlab, from a clone: pip install ."
    by = _INSTALLED_BY.get(name)
    if by is None:
        return f"No module named {module!r}"
    if by == "replay":
        extra = "pip install 'layoutlab[replay]' (from a clone: pip install '.[replay]')"
        return f"{name} is not installed: this needs the extra 'replay': {extra}"
    return f"{name} is not installed: pip install {by}"


class LayoutError(ValueError):
    """An operation has no result of the required form, or an argument is not what the operation takes.

    >>> raise LayoutError("mode 1 of shape (4,2) does not divide 96")
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: mode 1 of shape (4,2) does not divide 96
    """
