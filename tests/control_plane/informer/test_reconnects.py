"""The reconnect metric: people alert on it, so it must count each way in which a watch ends, and no first watch."""

import logging

import pytest
from support.operators.rig import Rig

PLURALS = ("backfills", "pods")


def reconnects(rig):
    """Return the reconnects of each resource."""
    value = rig.operator.metrics.registry.get_sample_value
    return [value("backfill_operator_watch_reconnects_total", {"resource": one}) or 0 for one in PLURALS]


@pytest.fixture
def no_logs():
    """Disable all logging; the metric must not depend on a library's log lines."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class TestReconnects:
    async def test_a_first_watch_is_none(self):
        """A process that has just started would otherwise look like a broken connection."""
        async with Rig() as rig:
            await rig.until(lambda: rig.api.open_watches == len(PLURALS))
            rig.create()
            await rig.until_holds("Running")
            assert reconnects(rig) == [0, 0]

    @pytest.mark.parametrize("end", ["break_watches", "forget", "fall_silent"])
    @pytest.mark.usefixtures("no_logs")
    async def test_each_way_a_watch_ends_is_counted(self, end):
        """Closed by the server, too old to go on, silent for too long: all of them are lost time."""
        async with Rig() as rig:
            await rig.until(lambda: rig.api.open_watches == len(PLURALS))
            getattr(rig.api, end)()
            await rig.until(lambda: all(reconnects(rig)), what=lambda: reconnects(rig))

            rig.create()
            await rig.until_holds("Running")
