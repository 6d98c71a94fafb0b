"""Known flaky tests: their failures are reported as flaky, neither passed nor failed.

tests/flaky.toml maps a node id (without its parameters) to the cause. No test is run again. The list is short on purpose: a
failing test that is not listed fails the run.
"""

import tomllib
from pathlib import Path

import pytest

LIST = Path(__file__).parent.parent / "flaky.toml"
MAX = 5
"""Entries of the list; a longer one would hide defects."""


def listed(path: Path = LIST) -> dict[str, str]:
    """Return the cause of each listed test by node id; raise `ValueError` if the list is too long or a cause is missing."""
    causes = tomllib.loads(path.read_text()) if path.exists() else {}
    if len(causes) > MAX or not all(isinstance(cause, str) and cause for cause in causes.values()):
        raise ValueError(f"{path.name}: at most {MAX} tests, each with its cause")
    return causes


def report_as_flaky(report: pytest.TestReport, causes: dict[str, str]) -> None:
    """Turn a failure of a listed test into a skip that names the cause."""
    cause = causes.get(report.nodeid.split("[")[0])
    if cause is not None and report.failed:
        report.outcome = "skipped"
        report.longrepr = (report.nodeid.split("::")[0], 0, f"Skipped: flaky: {cause}")
