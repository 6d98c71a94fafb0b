"""The history of this machine lists each run of a job, whatever ended it."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_core.protocol.receipt import TableReceipt, VnodeMismatch
from backfill_spark.control.history import HISTORY_FILE, RecordedRun, RunRecord, recorded_runs, verdict_of
from backfill_spark.control.local_registry import LocalRegistry

START, END = "2026-11-26T21:00:00Z", "2026-11-26T21:18:02Z"
DONE = RecordedRun("orders", START, END, "Complete", "Complete", "", 0, 2, 98, 7, "Equal")


def run(folder: Path, job_id: str = "orders", ended: RecordedRun | None = None) -> None:
    """Write a run; `None`: its driver is killed."""
    record = RunRecord(folder, job_id)
    record.begin(START)
    if ended is not None:
        record.finish(ended)


class TestTheHistory:
    """A run has one line for its start and one for its end."""

    def test_a_run_is_read_as_it_was_written(self, tmp_path: Path) -> None:
        """The next morning a person asks how the night went."""
        run(tmp_path, ended=DONE)
        run(tmp_path, "items", DONE)

        assert recorded_runs(tmp_path, "orders") == [DONE]
        assert [past.job_id for past in recorded_runs(tmp_path)] == ["orders", "items"]

    def test_a_killed_driver_leaves_a_run_without_an_end(self, tmp_path: Path) -> None:
        """A killed process writes nothing, and its run is not forgotten."""
        run(tmp_path)
        run(tmp_path, ended=DONE)

        assert [(past.outcome, past.end) for past in recorded_runs(tmp_path)] == [("Killed", ""), ("Complete", END)]

    def test_a_run_is_running_while_its_driver_holds_the_lock(self, tmp_path: Path) -> None:
        """A run that goes on is not a killed one."""
        run(tmp_path)
        with LocalRegistry(tmp_path, "orders") as registry:
            registry.announce("starting Spark")
            run(tmp_path)
            outcomes = [past.outcome for past in recorded_runs(tmp_path)]

        assert outcomes == ["Killed", "Running"]
        assert [past.outcome for past in recorded_runs(tmp_path)] == ["Killed", "Killed"]

    def test_a_driver_that_was_refused_has_no_run(self, tmp_path: Path) -> None:
        """Another driver of the job runs, so nothing began."""
        RunRecord(tmp_path, "orders").finish(DONE)

        assert recorded_runs(tmp_path) == []

    def test_only_its_owner_reads_the_file(self, tmp_path: Path) -> None:
        """Messages contain paths of tables."""
        run(tmp_path, ended=DONE)

        assert stat.S_IMODE((tmp_path / HISTORY_FILE).stat().st_mode) == 0o600

    @pytest.mark.parametrize(
        "line",
        [
            "",
            "no JSON",
            "7",
            "[" * 50_000,
            '{"run": "x"}',
            '{"run": [], "jobId": "orders", "start": "t"}',
            '{"run": "a", "jobId": "o',
        ],
    )
    def test_a_line_of_another_program_is_left_out(self, tmp_path: Path, line: str) -> None:
        """A full disk cuts a line off; the other runs are read."""
        run(tmp_path, ended=DONE)
        with (tmp_path / HISTORY_FILE).open("a") as out:
            out.write(line + "\n")
        run(tmp_path, ended=DONE)

        assert recorded_runs(tmp_path) == [DONE, DONE]

    def test_fields_of_another_type_are_not_trusted(self, tmp_path: Path) -> None:
        """A person may edit the file."""
        start = {"run": "a", "jobId": "orders", "start": START}
        end = {"run": "a", "jobId": "orders", "end": END, "rowsDone": "many", "exitCode": [], "outcome": None}
        (tmp_path / HISTORY_FILE).write_text(f"{json.dumps(start)}\n{json.dumps(end)}\n")

        assert recorded_runs(tmp_path) == [RecordedRun("orders", START, END, "", "", "")]

    def test_a_folder_that_cannot_be_written_does_not_stop_a_job(self, tmp_path: Path) -> None:
        """The job is worth more than its history."""
        run(tmp_path / "missing", ended=DONE)

        assert recorded_runs(tmp_path / "missing") == []


class TestTheVerdict:
    """The receipt in one word."""

    RECEIPT = TableReceipt(
        source_version=1, target_version=2, epoch=3, rows=4, vnodes=256, digest="a", mismatches=(), seconds=1
    )

    def test_a_receipt_about_all_rows_is_equal_and_one_about_some_is_partial(self) -> None:
        """Both found no difference, and only one of them is a proof."""
        assert verdict_of(self.RECEIPT) == "Equal"
        assert verdict_of(replace(self.RECEIPT, complete=False)) == "Partial"
        assert verdict_of(None) == ""

    def test_a_difference_is_named(self) -> None:
        """One vnode is enough."""
        assert verdict_of(replace(self.RECEIPT, mismatches=(VnodeMismatch(3, 1, 0),))) == "Differs"
