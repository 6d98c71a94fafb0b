"""The folder in which the command line finds drivers, and one driver in it."""

import pytest
from support.console.command_line import running


@pytest.fixture
def state_dir(tmp_path, monkeypatch):
    folder = tmp_path / "state"
    monkeypatch.setenv("BACKFILL_STATE_DIR", str(folder))
    return folder


@pytest.fixture
def job(state_dir):
    with running(state_dir) as scripted:
        yield scripted
