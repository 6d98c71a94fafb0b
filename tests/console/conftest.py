"""Fixtures of the block."""

import time

import pytest


@pytest.fixture
def utc(monkeypatch):
    """The local time zone is UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
