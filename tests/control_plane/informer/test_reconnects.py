"""The reconnect metric is used for alerts, so it counts each way in which a watch ends, but no first watch."""

import logging

import pytest
from support.operators.rig import Rig

PLURALS = ("backfills", "pods")
WATCHES = len(PLURALS) + 1
"""Open watches of an operator: both kinds, and the ConfigMap that pauses all jobs."""


def reconnects(rig):
    """Return the reconnects of each resource."""
    value = rig.operator.metrics.registry.get_sample_value
    return [value("backfill_operator_watch_reconnects_total", {"resource": plural}) or 0 for plural in PLURALS]


@pytest.fixture
def no_logs():
    """Disable all logging; the metric must not depend on a library's log lines."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class TestReconnects:
    async def test_first_watch_is_not_a_reconnect(self):
        """Otherwise a new process would look like a broken connection."""
        async with Rig(watch_silence_seconds=60) as rig:
            await rig.until(lambda: rig.api.open_watches == WATCHES)
            rig.create()
            await rig.until_holds("Running")
            assert reconnects(rig) == [0, 0]

    @pytest.mark.parametrize("end", ["break_watches", "forget", "fall_silent"])
    @pytest.mark.usefixtures("no_logs")
    async def test_each_end_of_a_watch_is_counted(self, end):
        """The server closed it, its version expired, or it was silent for too long."""
        async with Rig() as rig:
            await rig.until(lambda: rig.api.open_watches == WATCHES)
            getattr(rig.api, end)()
            await rig.until(lambda: all(reconnects(rig)), what=lambda: reconnects(rig))

            rig.create()
            await rig.until_holds("Running")
