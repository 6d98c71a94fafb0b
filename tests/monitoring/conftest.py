"""Prometheus for these tests; the run fails with the reason if it cannot be made."""

import pytest
from support.monitoring.prometheus import NoPrometheusError, program


@pytest.fixture(scope="session", autouse=True)
def programs():
    """Compile both programs before the first test, because its time limit does not include that."""
    try:
        return program("promtool"), program("prometheus")
    except NoPrometheusError as none:
        pytest.fail(str(none), pytrace=False)
