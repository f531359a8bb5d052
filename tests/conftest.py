"""Options and fixtures that several test files share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import browser as browsers


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-diagrams", action="store_true", help="write the gallery's pictures anew")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium; installs it where it is missing, and fails where it cannot."""
    driver = browsers.start()
    yield driver
    driver.quit()
