"""The parts of the Kafka demo, without a broker and Spark: its spec file, its producer's progress, and its reader."""

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
    demo = stage.KafkaDemo(tmp_path, 600_000, "127.0.0.1:9092", Console(file=io.StringIO(), width=100))
    yield demo
    if demo.writer is not None:
        demo.writer.kill()


def printing(tmp_path, *lines):
    """Start a child that prints lines of JSON, and waits."""
    statements = "".join(f"print({line!r})\n" for line in lines)
    return Child([sys.executable, "-u", "-c", f"{statements}input()"], tmp_path / "producer.log")


class TestItsFile:
    def test_the_file_is_a_valid_backfill(self, demo, stage):
        """Users read and copy the file; its rate limit makes the history last."""
        loaded = load_backfill(demo.document())

        assert (loaded.spec.verify, loaded.spec.after) == ("Final", "Exit")
        assert 600_000 / loaded.spec.throttle.rows_per_second == pytest.approx(stage.HISTORY_S)


class TestNewRecords:
    """New records are in the table while the job still reads history: the promise of the strategy."""

    def test_a_reader_that_finds_no_new_record_is_an_error(self, demo, tmp_path):
        """A demo that skips its promise has shown nothing."""
        demo.writer = printing(tmp_path, '{"written": 600000}')
        assert demo.writer.wait_for(lambda line: "written" in line, 30)
        demo.writer.end(timeout_s=0.1)

        with pytest.raises(DemoError, match="the reader found no new record"):
            demo.show_new("a reader looks")

    def test_the_producer_line_shows_the_age_of_the_newest_record(self, demo):
        """The line has no age before the table has a new record."""
        assert demo.describe_writer({"written": 600_000}) == "the producer: 600,000 records"
        assert demo.describe_writer({"written": 600_000, "seen_s": 2.345}).endswith("was written 2.3 s before")


class TestTheReader:
    """The demo reads with another implementation of Delta than the driver's."""

    def test_the_reader_counts_only_new_records(self, tmp_path):
        """Records of the history do not measure the delay to the table."""
        reader = tool("topic_producer").Reader(str(tmp_path / "t"))
        before = reader.age_s()
        write(tmp_path / "t", time.time() - 60)
        old = reader.age_s()
        write(tmp_path / "t", time.time() + 0.001)
        new = reader.age_s()

        assert (before, old) == (None, None)
        assert 0 <= new + 0.001 < 30


def write(path, time_s):
    timestamp = f"arrow_cast({int(time_s * 1e6)}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
    write_deltalake(path, QueryBuilder().execute(f"SELECT {timestamp} AS timestamp").read_all(), mode="append")
