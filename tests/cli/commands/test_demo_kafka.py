"""The parts of the demo of a topic, without broker and Spark: its file, what its other side says, and what the reader there sees."""

import importlib.util
import io
import sys
import time

import pytest
from deltalake import QueryBuilder, write_deltalake
from rich.console import Console
from support.repository import ROOT

from backfill_api.load import load_backfill
from demo.stage import Child, DemoError


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / "demo" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def stage():
    return tool("topic")


@pytest.fixture
def demo(stage, tmp_path):
    made = stage.KafkaDemo(tmp_path, 600_000, "127.0.0.1:9092", Console(file=io.StringIO(), width=100))
    yield made
    if made.writer is not None:
        made.writer.kill()


def saying(tmp_path, *lines):
    """A child that says lines of JSON, and waits."""
    said = "".join(f"print({line!r})\n" for line in lines)
    return Child([sys.executable, "-u", "-c", f"{said}input()"], tmp_path / "producer.log")


class TestItsFile:
    def test_is_a_backfill(self, demo, stage):
        """Users read and copy the file, so it must be a valid Backfill; its limit makes the history last."""
        found = load_backfill(demo.document())

        assert (found.spec.verify, found.spec.after) == ("Final", "Exit")
        assert 600_000 / found.spec.throttle.rows_per_second == pytest.approx(stage.HISTORY_S)


class TestNewRecords:
    """They are in the table while history is read: that is what the strategy is chosen for."""

    def test_a_reader_that_finds_none_is_an_error(self, demo, tmp_path):
        """A demo that skips what it promised has shown nothing."""
        demo.writer = saying(tmp_path, '{"written": 600000}')
        assert demo.writer.wait_for(lambda said: "written" in said, 30)
        demo.writer.end(timeout_s=0.1)

        with pytest.raises(DemoError, match="the reader found no new record"):
            demo.show_new("a reader looks")

    def test_the_producer_says_how_old_the_newest_one_is(self, demo):
        """Nothing before the table has one."""
        assert demo.writer_words({"written": 600_000}) == "the producer: 600,000 records"
        assert demo.writer_words({"written": 600_000, "seen_s": 2.345}).endswith("was written 2.3 s before")


class TestTheReader:
    """Another implementation of Delta than the driver's."""

    def test_knows_only_records_that_are_new(self, tmp_path):
        """Those of history say nothing about the time to the table."""
        reader = tool("topic_producer").Reader(str(tmp_path / "t"))
        before = reader.age_s()
        write(tmp_path / "t", time.time() - 60)
        old = reader.age_s()
        write(tmp_path / "t", time.time() + 0.001)
        new = reader.age_s()

        assert (before, old) == (None, None)
        assert 0 <= new + 0.001 < 30


def write(path, moment_s):
    moment = f"arrow_cast({int(moment_s * 1e6)}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
    write_deltalake(path, QueryBuilder().execute(f"SELECT {moment} AS timestamp").read_all(), mode="append")
