"""Debian's Chromium, headless, for tests that look at a page."""

import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium():
    """Start the browser; without it the tests are skipped, and `.ci/run` names them."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="`make setup` installs playwright")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--process-per-site"])
        yield launched
        launched.close()
