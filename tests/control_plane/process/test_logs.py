"""One JSON object a line, whatever is said, with what it is about."""

import io
import json
import logging

import pytest
from support.operators.rig import Rig

from backfill_operator.logs import configure_logging, log_context


@pytest.fixture
def log():
    """The root logger as the operator sets it up; put back afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    configure_logging("INFO", stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers[:] = handlers
    root.setLevel(level)


class TestLines:
    def test_say_what_they_are_about(self, log):
        """A person looks for a job."""
        with log_context("shop/orders", attempt=2, epoch=7):
            logging.getLogger("any").info("launched")
        logging.getLogger("any").info("idle")

        first, second = log()
        assert (first["job"], first["attempt"], first["epoch"], first["message"]) == ("shop/orders", 2, 7, "launched")
        assert "job" not in second

    async def test_of_the_operator_say_which_attempt_and_epoch(self, log):
        """Of a driver's silence and of a look that failed: both are found by the barrier at which they happened."""

        def said(words):
            return [one for one in log() if words in one["message"]]

        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            await rig.until(rig.progress)
            rig.double().unresponsive = True
            await rig.until(lambda: said("the driver does not answer"))
            rig.store.prune = lambda _plural, status: {**status, "phase": None}
            rig.edit(backoffLimit=5)
            await rig.until(lambda: said("older than the operator"))

        for line in (said("the driver does not answer")[0], said("older than the operator")[0]):
            assert (line["job"], line["attempt"], line["epoch"] > 0) == ("shop/orders", 1, True)

    def test_cannot_be_forged(self, log):
        """A name with a line break in it begins no other line."""
        logging.getLogger("any").info("a\n%s", '{"level": "INFO", "message": "all is well"}')
        assert len(log()) == 1

    def test_tell_what_was_raised(self, log):
        """Where it happened is half of the answer."""
        try:
            raise ValueError("no")
        except ValueError:
            logging.getLogger("any").exception("the look failed")
        assert "ValueError: no" in log()[0]["error"]

    def test_below_the_level_are_not_written(self, log):
        """Whatever level a library gives its own logger."""
        library = logging.getLogger("kopf.test")
        library.setLevel(logging.DEBUG)
        library.debug("a watch begins")
        assert log() == []
