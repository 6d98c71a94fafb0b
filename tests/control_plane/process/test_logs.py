"""Each log line is one JSON object with its context, for any message."""

import io
import json
import logging

import pytest
from support.operators.rig import Rig

from backfill_operator.logs import configure_logging, log_context


@pytest.fixture
def log():
    """Yield the root logger with the operator's configuration; restore it afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    configure_logging("INFO", stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers[:] = handlers
    root.setLevel(level)


class TestLines:
    def test_lines_contain_their_context(self, log):
        """Users search for a job."""
        with log_context("shop/orders", attempt=2, epoch=7):
            logging.getLogger("any").info("launched")
        logging.getLogger("any").info("idle")

        first, second = log()
        assert (first["job"], first["attempt"], first["epoch"], first["message"]) == ("shop/orders", 2, 7, "launched")
        assert "job" not in second

    async def test_lines_contain_attempt_and_epoch(self, log):
        """Lines about a driver's silence and about a failed reconcile have both, which identify the barrier."""

        def lines_with(words):
            return [line for line in log() if words in line["message"]]

        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            await rig.until(rig.progress)
            rig.double().unresponsive = True
            await rig.until(lambda: lines_with("the driver does not answer"))
            rig.store.prune = lambda _plural, status: {**status, "phase": None}
            rig.edit(backoffLimit=5)
            await rig.until(lambda: lines_with("older than the operator"))

        for line in (lines_with("the driver does not answer")[0], lines_with("older than the operator")[0]):
            assert (line["job"], line["attempt"], line["epoch"] > 0) == ("shop/orders", 1, True)

    def test_lines_cannot_be_forged(self, log):
        """A name with a line break does not start another line."""
        logging.getLogger("any").info("a\n%s", '{"level": "INFO", "message": "all is well"}')
        assert len(log()) == 1

    def test_lines_contain_the_exception(self, log):
        """The traceback shows where it happened."""
        try:
            raise ValueError("no")
        except ValueError:
            logging.getLogger("any").exception("the look failed")
        assert "ValueError: no" in log()[0]["error"]

    def test_lines_below_the_level_are_not_written(self, log):
        """This is independent of the level of a library's own logger."""
        library = logging.getLogger("kopf.test")
        library.setLevel(logging.DEBUG)
        library.debug("a watch begins")
        assert log() == []
