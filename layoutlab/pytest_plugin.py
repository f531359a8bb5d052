"""pytest plugin: the fixture `layout_guard`, which keeps what a layout does, so that no refactor changes it silently.

    def test_refactor(layout_guard):
        layout_guard.check("p_tile", p_tile())

The golden lies beside the test, goldens/test_module/p_tile.txt. `--layout-update` records and rewrites; a missing
golden fails; goldens that no test checks are reported when all tests of their module ran and passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from layoutlab.guard.check import Guard

USED, REMARK = "layout golden", "layout remark"
"""Names of the properties by which a test's report, on whichever worker it ran, says what its guards did."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option --layout-update."""
    group = parser.getgroup("layoutlab")
    group.addoption(
        "--layout-update", action="store_true", help="record missing layout goldens and rewrite those that changed"
    )


def pytest_configure(config: pytest.Config) -> None:
    """The process that reports gathers what the workers' tests say."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Gathered(config), "layoutlab-gathered")


@pytest.fixture
def layout_guard(request: pytest.FixtureRequest) -> Iterator[Guard]:
    """Goldens of layouts, beside the test's file: `layout_guard.check(name, object)`."""
    from layoutlab.guard.check import Guard

    guard = Guard(_folder(request.path), bool(request.config.getoption("--layout-update")))
    yield guard
    request.node.user_properties += [(USED, name) for name in guard.used]
    request.node.user_properties += [(REMARK, remark) for remark in guard.remarks]


def _folder(test: Path) -> Path:
    return test.parent / "goldens" / test.stem


class _Gathered:
    """What the reports of all tests said, and the lines at the end of the run."""

    def __init__(self, config: pytest.Config) -> None:
        self.root = config.rootpath
        self.whole = not (
            any("::" in str(argument) for argument in config.args)
            or any(config.getoption(name, None) for name in ("keyword", "markexpr", "deselect", "lf"))
        )
        self.used: dict[Path, set[str]] = {}
        self.unsure: set[Path] = set()
        self.remarks: list[str] = []

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Other plugins may deselect too."""
        self.unsure |= {item.path for item in items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Reads the properties of a finished test; one that did not pass may not have come to its checks."""
        path = self.root / report.nodeid.split("::")[0]
        self.used.setdefault(path, set())
        if not report.passed or hasattr(report, "wasxfail"):
            self.unsure.add(path)
        if report.when == "teardown":
            for name, value in report.user_properties:
                if name == USED:
                    self.used[path].add(str(value))
                elif name == REMARK:
                    self.remarks.append(f"{report.nodeid}: {value}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that could not be collected ran nothing."""
        if report.failed:
            self.unsure.add(self.root / report.nodeid.split("::")[0])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        """The remarks, and the goldens that no test checks."""
        stopped = exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        stopped = stopped or bool(terminalreporter.stats.get("error")) or _stopped_early(terminalreporter)
        stale = [] if stopped or not self.whole else self.stale()
        if not self.remarks and not stale:
            return
        terminalreporter.section("layout goldens")
        for remark in self.remarks:
            terminalreporter.write_line(remark)
        for path in stale:
            shown = path.relative_to(self.root) if path.is_relative_to(self.root) else path
            terminalreporter.write_line(f"stale: no test checks {shown}: delete it, or check it again", yellow=True)

    def stale(self) -> list[Path]:
        """The goldens of modules that ran whole, of which no test asked, and those of modules that are gone."""
        found = set[Path]()
        for module, used in self.used.items():
            if module not in self.unsure and module.is_file():
                found |= {path for path in _folder(module).glob("*.txt") if path.name not in used}
        for folder in {module.parent for module in self.used}:
            for goldens in (folder / "goldens").glob("*/"):
                if not (folder / f"{goldens.name}.py").exists():
                    found |= set(goldens.glob("*.txt"))
        return sorted(found)


def _stopped_early(reporter: pytest.TerminalReporter) -> bool:
    session = getattr(reporter, "_session", None)
    return bool(session is not None and (session.shouldfail or session.shouldstop))
