"""The driver's metrics: events of the loop are counted, and the page lists exactly the metrics that are served."""

import re

import pytest
from prometheus_client import generate_latest
from support.repository import ROOT

from backfill_api.status.losses import PodLoss
from backfill_api.status.progress import PartitionLag, Progress, Watermark
from backfill_core.errors import TransientError
from backfill_core.protocol.actions import Acknowledge, Seal, StartWork
from backfill_core.protocol.clock import Now
from backfill_core.protocol.events import PollFailed, Sealed, SealFailed, Tick, WorkCancelled, WorkFailed, WorkFinished
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.protocol.work import (
    ApplyChanges,
    ChangesApplied,
    KeyProven,
    ProveKey,
    ReadSplit,
    SplitStaged,
    StagedFile,
    StagedMode,
    Verified,
    Verify,
)
from backfill_spark.control.metrics import LoopMeter, progress_registry

PAGE = (ROOT / "docs" / "metrics.md").read_text()
PROGRESS = Progress(
    attempt=2, epoch=7, rows_total=100, rows_done=40, throttle_rows_per_second=50, throttle_bytes_per_second=70, max_in_flight=8, split_target_seconds=4, chunk_rows=0, executors=3, eta_seconds=3, table_version=9,
    last_commit_time="2026-01-01T00:00:10Z", last_barrier_time="2026-01-01T00:00:10Z", last_look_time="2026-01-01T00:00:10Z", stopping=True, lag_records=0,
    watermark=Watermark(column="id", direction="Ascending", value="3"),
    lag_by_partition=(PartitionLag(partition="3", records=12), PartitionLag(partition="other", records=5)),
)  # fmt: skip
AWAY = TransientError("away")


@pytest.fixture
def served():
    """A meter, and a function that scrapes it into a dictionary of name-with-labels to value."""
    registry = progress_registry("a/b", lambda: PROGRESS)
    meter = LoopMeter("a/b", registry)

    def scrape():
        lines = generate_latest(registry).decode().splitlines()
        pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
        return {name.replace('job="a/b",', "").replace('{job="a/b"}', ""): float(value) for name, value in pairs}

    meter.registry = registry
    return meter, scrape


def at(seconds):
    return Now(seconds, 0)


class TestThePage:
    def test_the_page_lists_each_metric_with_its_kind(self, served):
        """Users do not watch a metric that no page names; an alert on a removed metric never fires."""
        meter, _ = served
        meter(Acknowledge(2, 7, 1, "Applied"), at(0))
        types = re.findall(r"^# TYPE (\S+) (\S+)$", generate_latest(meter.registry).decode(), flags=re.MULTILINE)
        listed = re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE, flags=re.MULTILINE)

        assert sorted(listed) == sorted(types)

    def test_every_name_has_the_prefix(self):
        """A common prefix makes them easy to find, and to drop, together."""
        assert all(name.startswith("backfill_") for name in re.findall(r"^\| `(\w+)` \| ", PAGE, flags=re.MULTILINE))


class TestGauges:
    def test_gauges_show_the_progress(self, served):
        """Users and alerts cannot see different values."""
        _, scrape = served
        shown = scrape()

        expected = {
            "backfill_rows_done": 40, "backfill_throttled": 1, "backfill_throttle_rows_per_second": 50,
            'backfill_partition_lag_records{partition="3"}': 12, 'backfill_partition_lag_records{partition="other"}': 5,
            "backfill_throttle_bytes_per_second": 70, "backfill_max_in_flight": 8, "backfill_split_target_seconds": 4, "backfill_chunk_rows": 0, "backfill_executors": 3, "backfill_stopping": 1, "backfill_paused": 0, "backfill_last_commit_timestamp_seconds": 1767225610,
        }  # fmt: skip
        assert {name: shown[name] for name in expected} == expected

    def test_unknown_values_are_left_out(self):
        """A zero would be a value."""
        text = generate_latest(progress_registry("a/b", Progress)).decode()

        assert "backfill_eta_seconds" not in text
        assert "backfill_throttle_rows_per_second" not in text
        assert "backfill_throttle_bytes_per_second" not in text
        for name in ("max_in_flight", "split_target_seconds", "chunk_rows"):
            assert f"backfill_{name}" not in text


class TestWhatTheLoopSaw:
    def test_a_barrier_lasts_from_its_seal_until_it_is_durable(self, served):
        """A retried commit is one barrier, and a slow one."""
        meter, scrape = served
        meter(Seal(5, 1, (), ""), at(10.0))
        meter(SealFailed(5, AWAY), at(11.0))
        meter(Seal(5, 1, (), ""), at(12.0))
        meter(Sealed(5, 3, 0.25), at(12.5))
        shown = scrape()

        assert (shown["backfill_barrier_seconds_count"], shown["backfill_barrier_seconds_sum"]) == (1, 2.5)
        assert (shown["backfill_commit_seconds_count"], shown["backfill_commit_seconds_sum"]) == (1, 0.25)
        assert shown["backfill_commit_failures_total"] == 1

    @pytest.mark.parametrize(
        ("work", "result", "name"),
        [
            (ReadSplit(1, (), 0, 5, 1), SplitStaged(1, ()), "split"),
            (ApplyChanges(1, 0, 5, 1, 1), ChangesApplied(1, 5), "merge"),
            (Verify(1, 0, 5, 1), Verified(1, TableReceipt(0, 5, 1, 1, 1, "", (), 1.0)), "receipt"),
            (ProveKey(1, 5), KeyProven(1), "key"),
        ],
        ids=["split", "merge", "receipt", "key"],
    )
    def test_work_is_timed_by_its_kind(self, served, work, result, name):
        """The time starts with the action, so waiting for a thread counts."""
        meter, scrape = served
        meter(StartWork(work), at(1.0))
        meter(WorkFinished(result), at(4.0))

        assert scrape()[f"backfill_{name}_seconds_sum"] == 3.0

    def test_staged_files_are_counted(self, served):
        """A file counts even if it is never sealed, because its read and write were paid for."""
        meter, scrape = served
        meter(StartWork(ReadSplit(1, (), 0, 5, 1)), at(0))
        vector = StagedFile("b.bin", 0, 0)
        files = (StagedFile("a", 700, 5), StagedFile("b", 300, 2, mode=StagedMode.WHOLE), vector)
        meter(WorkFinished(SplitStaged(1, files)), at(1))

        assert (scrape()["backfill_staged_bytes_total"], scrape()["backfill_staged_rows_total"]) == (1000, 7)
        modes = [scrape()[f'backfill_staged_files_total{{way="{mode}"}}'] for mode in ("Whole", "Decoded")]
        assert modes == [1, 1], "the file of a deletion vector has no copy mode"

    def test_failures_are_counted_by_kind_and_cause(self, served):
        """A cancelled split is a pause; a failed one is an error."""
        meter, scrape = served
        for work_id in (1, 2):
            meter(StartWork(ReadSplit(work_id, (), 0, 5, 1)), at(0))
        meter(WorkFailed(1, AWAY), at(1))
        meter(WorkCancelled(2), at(1))
        meter(PollFailed(AWAY), at(1))
        shown = scrape()

        assert shown['backfill_work_failures_total{why="failed",work="split"}'] == 1
        assert shown['backfill_work_failures_total{why="cancelled",work="split"}'] == 1
        assert shown["backfill_look_failures_total"] == 1

    def test_lost_executors_are_counted_by_reason(self):
        """A driver that lost none has no line."""
        lost = (PodLoss(reason="Evicted", count=1), PodLoss(reason="OOMKilled", count=2))
        text = generate_latest(progress_registry("a", lambda: Progress(executors_lost=lost))).decode()

        assert 'backfill_executors_lost_total{job="a",reason="OOMKilled"} 2.0' in text
        assert 'backfill_executors_lost_total{job="a",reason="Evicted"} 1.0' in text
        assert "backfill_executors_lost_total{" not in generate_latest(progress_registry("a", Progress)).decode()

    def test_unknown_events_are_ignored(self, served):
        """A second answer or a tick must not end the loop."""
        meter, scrape = served
        for event in (Tick(), WorkFailed(9, AWAY), WorkFinished(SplitStaged(9, ())), Sealed(9, 1, 0.5)):
            meter(event, at(1))

        assert scrape()["backfill_split_seconds_count"] == 0
