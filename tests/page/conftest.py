"""A page of a scripted source on a real port, and a client with a session, for the tests that use no browser."""

import pytest
from support.page.scripted_source import ScriptedSource, seen
from support.page.serving import serving


@pytest.fixture(scope="module")
def served():
    """A source, and a client with a session."""
    source = ScriptedSource()
    with serving(source) as client:
        client.open()
        yield source, client


@pytest.fixture
def source(served):
    """One job."""
    served[0].reset(seen())
    return served[0]


@pytest.fixture
def page(served, source):
    """A client with a session."""
    return served[1]
