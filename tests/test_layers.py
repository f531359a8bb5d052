"""The layers: imports point only upwards in the list below, and what must stay cheap to import does."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "layoutlab"

LAYERS = [
    "errors",
    "symbol",
    "int_tuple",
    "digits",
    "layout",
    "swizzle",
    "algebra",
    "text",
    "survey",
    "arbiter",
    "formula",
    "cost",
    "witnesses",
    "atoms",
    "tv",  # below the tables, of whose instructions it makes copy and MMA atoms
    "handoff",
    "theorems",
    "derive",
    "draw",
    "ptx",
    "cutedsl",
    "replay",
    "device",
    "catalogue",
    "crosscheck",
    "guard",
    "tracing",
    "kernels",
    "pytest_plugin",
    "cli",
    "trace",
]
ALONE = {"ptx"}  # the replay machine shares nothing with the model that it is there to check


def layer_of(module: str) -> str:
    """layoutlab.atoms.tmem -> atoms; the package itself stands on top of all."""
    return module.split(".")[1] if "." in module else "layoutlab"


def imports(source: str, module: str, is_package: bool) -> set[str]:
    """The modules of layoutlab that a source imports, lazily or not; type-only imports do not count."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = [ast.Pass()]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            package = module.split(".") if is_package else module.split(".")[:-1]
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            name = ".".join(filter(None, [base, node.module or ""]))
            found |= {f"{name}.{alias.name}" for alias in node.names} if name == "layoutlab" else {name}
    return {name for name in found if name.split(".")[0] == "layoutlab"}


def violations(sources: dict[str, tuple[str, bool]]) -> list[str]:
    """Every import that points downwards in the list, or into a layer that stands alone."""
    bad = []
    for module, (source, is_package) in sources.items():
        mine = layer_of(module)
        for name in imports(source, module, is_package):
            theirs = layer_of(name)
            if mine == theirs:
                continue
            if mine in ALONE or theirs not in LAYERS or (mine in LAYERS and LAYERS.index(theirs) > LAYERS.index(mine)):
                bad.append(f"{module} imports {name}")
    return bad


def sources() -> dict[str, tuple[str, bool]]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = ("layoutlab", *path.relative_to(PACKAGE).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        found[".".join(parts[:-1] if is_package else parts)] = (path.read_text(), is_package)
    return found


def test_imports_point_upwards() -> None:
    all_sources = {m: s for m, s in sources().items() if m not in ("layoutlab", "layoutlab.__main__")}
    assert len(all_sources) > 10
    assert violations(all_sources) == []


def test_every_module_has_a_layer() -> None:
    layers = {layer_of(module) for module in sources()} - {"layoutlab", "__main__"}
    assert layers <= set(LAYERS)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("layoutlab.digits", "from layoutlab.layout import Layout"),
        ("layoutlab.digits", "def f():\n    import layoutlab.handoff"),
        ("layoutlab.ptx.memory", "from layoutlab.errors import LayoutError"),
        ("layoutlab.atoms.tmem", "from ..handoff import Handoff"),
        ("layoutlab.layout", "from layoutlab import composition"),
    ],
)
def test_a_planted_violation_is_seen(module: str, source: str) -> None:
    assert len(violations({module: (source, False)})) == 1


HEAVY = ("numpy", "sympy", "cutlass", "matplotlib", "torch", "graphviz", "llvmlite", "z3")


def test_importing_the_package_is_light() -> None:
    code = f"import sys, layoutlab; print([m for m in {HEAVY} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
