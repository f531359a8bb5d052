"""What pyproject.toml says of the package is true of the source tree."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_every_package_is_installed() -> None:
    found = {".".join(p.parent.relative_to(ROOT).parts) for p in (ROOT / "layoutlab").rglob("*.py")}
    assert set(SETUPTOOLS["packages"]) == found | {"layoutlab.kernels"}


def test_every_data_file_is_installed() -> None:
    (data,) = SETUPTOOLS["package-data"].values()
    other = {p for p in (ROOT / "layoutlab").rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")}
    assert {str(p.relative_to(ROOT / "layoutlab")) for p in other} == set(data)
