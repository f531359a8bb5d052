"""A headless Chromium for tests: Debian's packages, installed where they are missing; where they cannot be, tests fail.

`page(path)` opens a file; everything else is selenium's driver.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

PACKAGES = ("chromium", "chromium-driver")
PROGRAMS = ("chromium", "chromedriver")
ARGUMENTS = ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=1", "--disable-gpu")


def missing() -> list[str]:
    return [program for program in PROGRAMS if shutil.which(program) is None]


def install() -> None:
    """Installs the packages; the error says what to do where that is not possible."""
    if not missing():
        return
    how = f"install them: apt-get install {' '.join(PACKAGES)}"
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise RuntimeError(f"the drawing tests need {' and '.join(missing())}, and this is no root on Debian; {how}")
    apt = ["apt-get", "-qq", "-y", "--no-install-recommends"]
    for command in ([*apt, "update"], [*apt, "install", *PACKAGES, "fonts-dejavu-core"]):
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        )
        if done.returncode:
            raise RuntimeError(
                f"the drawing tests need {' and '.join(missing())}; {' '.join(command)}: {done.stderr[-500:]}"
            )
    if missing():
        raise RuntimeError(f"the drawing tests need {' and '.join(missing())}; {how}")


def start(width: int = 1400, height: int = 900) -> Any:
    """A driver of a new browser; the caller quits it."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    install()
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_window_size(width, height)
    return driver


def opened(driver: Any, path: Path, fragment: str = "") -> Any:
    """The driver at the file; a page of ours has drawn itself."""
    driver.get("about:blank")
    driver.get(path.resolve().as_uri() + fragment)
    return driver


def complaints(driver: Any) -> list[str]:
    """What the browser's console reports as errors."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
