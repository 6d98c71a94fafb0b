"""`backfill history` lists the runs on this machine, from the file that each driver appends to."""

import json

from support.console.command_line import backfill, running
from support.tables.jobs import write_yaml

from backfill_spark.control.history import RecordedRun, RunRecord

START, END = "2026-11-26T21:00:00Z", "2026-11-26T21:18:02Z"
COMPLETE = RecordedRun("default/job", START, END, "Complete", "Complete", "", 0, 2, 97_990_215, 1204, "Equal")
FAILED = RecordedRun("default/job", START, END, "Failed", "KeyNotUnique", "key 7 occurs twice", 23, 1, 40, 0, "")


def recorded(folder, run, job_id="default/job"):
    """Write a run; `None`: its driver was killed."""
    folder.mkdir(exist_ok=True)
    record = RunRecord(folder, job_id)
    record.begin(START)
    if run is not None:
        record.finish(run)


class TestTheTable:
    """A row for each run, whatever ended it."""

    def test_each_run_has_its_duration_outcome_rows_and_receipt(self, state_dir):
        """The next morning a person asks how the night went."""
        recorded(state_dir, FAILED)
        recorded(state_dir, None)
        recorded(state_dir, COMPLETE)

        done = backfill("history")

        heading, failed, killed, complete = done.stdout.splitlines()
        assert heading.split() == [
            "ATTEMPT",
            "START",
            "END",
            "DURATION",
            "OUTCOME",
            "ROWS",
            "CHANGES",
            "RECEIPT",
            "EXIT",
            "MESSAGE",
        ]
        assert "Failed: KeyNotUnique" in failed
        assert failed.endswith("23  key 7 occurs twice")
        assert killed.split()[3:] == ["-", "-", "Killed", "-", "-", "-", "-"]
        assert "18 min 2 s  Complete" in complete
        assert complete.split()[-4:] == ["97,990,215", "1,204", "Equal", "0"]

    def test_jobs_are_named_if_there_are_several(self, state_dir, tmp_path):
        """`--job` and `-f` select one."""
        recorded(state_dir, COMPLETE)
        recorded(state_dir, FAILED, "shop/items")
        spec = write_yaml(tmp_path / "job.yaml", "/s", "/t", name="job")

        assert [line.split()[0] for line in backfill("history").stdout.splitlines()] == [
            "JOB",
            "default/job",
            "shop/items",
        ]
        assert len(backfill("history", "--job", "shop/items").stdout.splitlines()) == 2
        assert "Complete" in backfill("history", "-f", spec).stdout
        assert "KeyNotUnique" not in backfill("history", "-f", spec).stdout

    def test_a_running_job_lasts_until_now(self, state_dir):
        """It has no end yet."""
        with running(state_dir):
            recorded(state_dir, None)
            [run] = json.loads(backfill("history", "-o", "json").stdout)

        assert (run["outcome"], run["end"], run["durationSeconds"] > 0) == ("Running", None, True)

    def test_an_empty_history_says_so(self, state_dir):
        """It names the folder: another user or machine has its own."""
        assert backfill("history").stdout == f"no run of a job is recorded in {state_dir}\n"
        assert "no run of shop/items is recorded" in backfill("history", "--job", "shop/items").stdout
        assert json.loads(backfill("history", "-o", "json").stdout) == []


class TestJson:
    """The fields have the names of the file."""

    def test_a_run_is_read_as_it_was_written(self, state_dir):
        """Unknown values are null."""
        recorded(state_dir, COMPLETE)

        [run] = json.loads(backfill("history", "-o", "json").stdout)

        assert run == {
            "jobId": "default/job", "start": START, "end": END, "durationSeconds": 1082, "outcome": "Complete", "reason": "Complete",
            "message": None, "exitCode": 0, "attempt": 2, "rowsDone": 97_990_215, "changesDone": 1204, "receipt": "Equal",
        }  # fmt: skip

    def test_times_that_a_person_edited_are_shown_as_they_are(self, state_dir):
        """A broken line must not hide the others."""
        state_dir.mkdir()
        (state_dir / "history.jsonl").write_text(
            '{"run": "a", "jobId": "default/job", "start": "yes\\u001b[2Jterday"}\n'
        )

        done = backfill("history")

        assert (done.exit_code, "yes [2Jterday" in done.stdout, "\x1b" in done.stdout) == (0, True, False)
