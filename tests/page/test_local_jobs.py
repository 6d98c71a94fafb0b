"""The jobs of this machine, by the control servers of drivers without Spark and by the history of runs."""

import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from support.console.command_line import running
from support.page.serving import serving

from backfill.lines import current_time
from backfill_api.status.progress import Progress
from backfill_cli.page.all_local_jobs import switch_of
from backfill_cli.page.local_frames import row_of_driver, row_of_silent
from backfill_cli.page.local_jobs import LocalJobs
from backfill_console.frames import frame_of_driver
from backfill_page.seen import Pause, PauseAllJobs, Resume, ResumeAllJobs, Throttle, Verify
from backfill_spark.control.history import RecordedRun, RunRecord, recorded_runs
from backfill_spark.control.local_registry import LocalRegistry

START, END = "2026-11-26T21:00:00Z", "2026-11-26T21:18:02Z"
DONE = RecordedRun("j", START, END, "Complete", "Complete", "", 0, 1, 98, 7, "Equal")
KEY = "default/job"


@pytest.fixture
def jobs(tmp_path):
    """The source of the page."""
    return LocalJobs(tmp_path)


def record(folder, job_id, ended=None):
    """Write a run; `None`: its driver was killed."""
    run = RunRecord(folder, job_id)
    run.begin(START)
    if ended is not None:
        run.finish(ended)


def only(listing):
    """Return the only row."""
    [row] = listing.rows
    return row


class TestRunningJobs:
    """The page shows what `backfill status` shows."""

    def test_running_job_has_its_progress(self, jobs, tmp_path):
        """The list and its page have the same values."""
        with running(tmp_path):
            row, seen = only(jobs.jobs()), jobs.job(KEY)

        assert (row.key, row.group, row.percent, row.rows_done, row.rows_total, row.rows_per_second) == (
            KEY,
            "runs",
            25,
            1000,
            4000,
            500,
        )
        assert (seen.frame.progress.percent, seen.ended, seen.unavailable) == (25, None, "")

    def test_starting_job_has_its_step(self, jobs, tmp_path):
        """It takes no requests yet."""
        with LocalRegistry(tmp_path, KEY) as registry:
            registry.announce("opening the tables")
            row, seen = only(jobs.jobs()), jobs.job(KEY)

        assert (row.group, row.state, row.why, row.percent) == ("waits", "starting", "opening the tables", None)
        assert seen.frame.progress.reason == "opening the tables"

    def test_job_with_a_warning_needs_a_person(self, jobs, tmp_path):
        """A warning names a cause that will end the job unless a user acts."""
        with running(tmp_path) as driver:
            driver.progress = driver.progress.model_copy(update={"warnings": ("the source deletes version 3 soon",)})
            row = only(jobs.jobs())

        assert (row.group, row.why) == ("needs a person", "the source deletes version 3 soon")

    def test_unknown_job_does_not_exist(self, jobs):
        """It never ran here."""
        assert jobs.job(KEY) is None

    def test_silent_driver_needs_a_person_and_the_others_are_listed(self, jobs, tmp_path):
        """Its process lives, and nothing listens at its address."""
        with running(tmp_path, "a"), LocalRegistry(tmp_path, "b") as registry:
            registry.publish(url="http://127.0.0.1:9", token="t", attempt=1)
            rows, seen = {row.key: row for row in jobs.jobs().rows}, jobs.job("b")

        assert rows["a"].group == "runs"
        assert (rows["b"].group, rows["b"].state) == ("needs a person", "no answer")
        assert "does not answer" in seen.problem
        assert seen.unavailable == "The driver does not answer."

    @pytest.mark.parametrize(
        "answer",
        [b"x" * 9_000_000, b'{"jobId": "j", "percent": 1e9}', b"<html>", b"{}"],
        ids=["megabytes", "lie", "html", "{}"],
    )
    def test_answer_that_is_no_drivers_is_named(self, jobs, tmp_path, answer):
        """Another program listens at the address of a driver."""
        with LocalRegistry(tmp_path, "b") as registry, answering(answer) as url:
            registry.publish(url=url, token="t", attempt=1)
            row = only(jobs.jobs())

        assert row.group == "needs a person"
        assert "an answer that is not a driver's" in row.why
        assert len(row.why) < 1000


class TestActions:
    """An answer has the effect, the epoch of the acknowledgement, and its time."""

    def test_pause_and_resume_are_acknowledged_and_listed(self, jobs, tmp_path):
        """A driver reports only the revision; the page keeps the command."""
        with running(tmp_path):
            paused, row = jobs.act(KEY, Pause()), only(jobs.jobs())
            resumed, seen = jobs.act(KEY, Resume()), jobs.job(KEY)

        assert paused.ok
        assert paused.text.startswith("pause: paused at 25 % (1,000 rows); changes continue. Acknowledged at epoch")
        assert paused.text.endswith("Undo: backfill resume --job default/job")
        assert row.group == "paused"
        assert resumed.ok
        assert [(note.text, note.by) for note in seen.frame.commands] == [
            ("pause", "this page"),
            ("resume", "this page"),
        ]
        assert all(note.epoch and note.took_ms is not None for note in seen.frame.commands)

    def test_all_jobs_are_paused_and_resumed_together(self, jobs, tmp_path):
        """Snapshot and changes of each stand still, and its page shows the reason."""
        with running(tmp_path) as driver, running(tmp_path, "default/other") as other:
            before = jobs.jobs().switch
            paused, during = jobs.act_on_all(PauseAllJobs("incident 4711")), jobs.jobs()
            scopes = [each.seen[0].command.everything for each in (driver, other)]
            note = jobs.job(KEY).frame.commands[-1]
            resumed, after = jobs.act_on_all(ResumeAllJobs("")), jobs.jobs().switch

        assert (before.paused, during.switch.paused, after.paused) == (False, True, False)
        assert paused.text.startswith("pause of all jobs: all running jobs are paused. 2 drivers acknowledged in")
        assert [row.group for row in during.rows] == ["paused", "paused"]
        assert scopes == [True, True]
        assert (note.text, note.note) == ("pause of all jobs", "incident 4711")
        assert resumed.ok, resumed

    def test_job_that_does_not_acknowledge_is_named(self, jobs, tmp_path):
        """The others are paused."""
        with running(tmp_path) as driver, LocalRegistry(tmp_path, "b") as registry, answering(b"{}") as url:
            registry.publish(url=url, token="t", attempt=1)
            answer = jobs.act_on_all(PauseAllJobs("incident 4711"))

        assert not answer.ok
        assert answer.text.startswith("pause of all jobs: 1 of 2 jobs acknowledged. b: ")
        assert driver.seen

    @pytest.mark.parametrize(
        ("paused", "warnings", "resumes"),
        [("All", ("slow",), True), ("All", (), True), ("History", (), False), (None, (), False)],
    )
    def test_switch_offers_to_resume_if_snapshot_and_changes_of_all_jobs_are_paused(self, paused, warnings, resumes):
        """A warning moves a paused job to those that need a person: the page offered only to pause it again."""
        progress = Progress(attempt=1, paused=paused, warnings=warnings)
        row = row_of_driver("a", frame_of_driver("a", progress, now=current_time()))

        assert switch_of([row]).paused is resumes
        assert switch_of([row, row_of_silent("b", "it does not answer")]).paused is resumes

    def test_there_is_no_switch_without_a_running_job(self, jobs, tmp_path):
        """Its button names the reason."""
        record(tmp_path, "j", DONE)

        assert jobs.jobs().switch.lack == "No job runs."

    def test_throttle_has_its_duration(self, jobs, tmp_path):
        """The driver ends the limit, also if the page is closed."""
        with running(tmp_path) as driver:
            answer = jobs.act(KEY, Throttle(100_000, 1800))

        assert driver.seen[0].command.rows_per_s == 100_000
        assert driver.seen[0].command.for_s == 1800
        assert answer.text.startswith("throttle 100000 --for 30m: limited to 100,000 rows/s for 30 min at 25 %")

    def test_verify_returns_at_once_and_the_receipt_follows(self, jobs, tmp_path):
        """A comparison may take an hour; a form must not."""
        with running(tmp_path, different=True) as driver:
            answer = jobs.act(KEY, Verify())
            for _ in jobs.watch_job(KEY, threading.Event()):
                if driver.receipt is not None:
                    break
            row, seen = only(jobs.jobs()), jobs.job(KEY)

        assert answer.text.startswith(
            "verify: the driver compares source and target at 25 % (1,000 rows). Acknowledged"
        )
        assert (row.group, row.why) == ("needs a person", "source and target differ")
        assert not seen.frame.receipt.equal

    def test_action_without_a_driver_names_the_next_command(self, jobs):
        """The driver may have ended since the page was drawn."""
        answer = jobs.act(KEY, Pause())

        assert not answer.ok
        assert answer.text.startswith("pause: job 'default/job' is not running on this machine.")

    def test_unacknowledged_action_is_no_success(self, jobs, tmp_path, monkeypatch):
        """The driver has the command, and it is not in force."""
        monkeypatch.setattr("backfill_cli.page.local_jobs.ACK_WAIT_S", 0.1)
        with running(tmp_path, silent=True):
            answer = jobs.act(KEY, Pause())

        assert not answer.ok
        assert "no acknowledgement" in answer.text


class TestEndedRuns:
    """The history keeps runs whose driver has gone."""

    @pytest.mark.parametrize(
        ("ended", "group", "outcome"),
        [
            (DONE, "done", "Complete"),
            (RecordedRun("j", START, END, "Stopped", "Stopped"), "paused", "Stopped"),
            (RecordedRun("j", START, END, "Failed", "KeyNotUnique", "3 rows"), "needs a person", "Failed"),
            (None, "needs a person", "Killed"),
            (RecordedRun("j", START, END, "Complete", "Complete", receipt="Differs"), "needs a person", "Complete"),
        ],
        ids=["complete", "stopped", "failed", "killed", "differs"],
    )
    def test_run_is_grouped_by_its_outcome(self, jobs, tmp_path, ended, group, outcome):
        """A run that was stopped on request needs no person."""
        record(tmp_path, "j", ended)
        row, seen = only(jobs.jobs()), jobs.job("j")

        assert (row.group, row.state) == (group, outcome)
        assert seen.ended.outcome == outcome
        assert seen.ended.next_commands
        assert seen.unavailable == "No driver runs."

    def test_only_the_newest_run_of_a_job_is_listed_and_none_of_a_running_job(self, jobs, tmp_path):
        """A job that failed yesterday and runs today needs no person."""
        record(tmp_path, "j", RecordedRun("j", START, END, "Failed", "Transient"))
        record(tmp_path, "j", DONE)
        assert only(jobs.jobs()).state == "Complete"

        with running(tmp_path, "j"):
            assert only(jobs.jobs()).group == "runs"

    def test_run_that_the_page_watched_keeps_its_steps_and_commands(self, jobs, tmp_path):
        """The history has neither."""
        with running(tmp_path, "j"):
            record(tmp_path, "j", DONE)
            jobs.act("j", Pause())
            assert jobs.job("j").ended is None
        seen = jobs.job("j")

        assert seen.ended.good
        assert [note.text for note in seen.frame.commands] == ["pause"]
        assert seen.frame.progress.percent == 25

    def test_history_is_parsed_after_a_change_only(self, jobs, tmp_path, monkeypatch):
        """The page reads it twice a second, and it may have ten thousand runs."""
        from backfill_cli.page import local_jobs

        parses = []
        monkeypatch.setattr(local_jobs, "recorded_runs", lambda folder: parses.append(folder) or recorded_runs(folder))
        record(tmp_path, "j", DONE)
        before = [only(jobs.jobs()).state for _ in range(3)]
        record(tmp_path, "j", RecordedRun("j", START, END, "Stopped", "Stopped"))

        assert (before, only(jobs.jobs()).state, len(parses)) == (["Complete"] * 3, "Stopped", 2)

    def test_killed_run_has_no_end(self, jobs, tmp_path):
        """A killed process writes nothing."""
        record(tmp_path, "j")

        assert jobs.job("j").ended.end == ""


class TestThePage:
    """Source and server together."""

    def test_browser_sees_a_commit_and_pauses(self, jobs, tmp_path):
        """The test follows the user from the first page to the acknowledgement."""
        with running(tmp_path) as driver, serving(jobs) as page:
            page.open()
            assert KEY in page.get("/").text
            with page.events(f"/events/job?key={KEY}&ended=0") as messages:
                assert "25 %" in next(messages)["regions"]["head"]
                driver.progress = driver.progress.model_copy(update={"percent": 26})
                assert any(
                    "26 %" in message.get("regions", {}).get("head", "")
                    for message, _ in zip(messages, range(20), strict=False)
                )
                answer = page.act(KEY, "pause")

            assert "changes continue. Acknowledged at epoch" in answer.text
            assert 'value="resume"' in page.get(f"/job?key={KEY}").text

    def test_end_of_a_driver_shows_the_ended_run(self, jobs, tmp_path):
        """The open page loads the other view by itself."""
        with serving(jobs) as page:
            page.open()
            with running(tmp_path, "j"):
                record(tmp_path, "j", DONE)
                with page.events("/events/job?key=j&ended=0") as messages:
                    next(messages)
                    registry = next(tmp_path.glob("*.json"))
                    registry.unlink()
                    assert any(message.get("reload") for message, _ in zip(messages, range(20), strict=False))
            assert "Complete" in page.get("/job?key=j").text


class answering:  # noqa: N801 - used as a context manager
    """A server that gives one answer to each request."""

    def __init__(self, body):
        class Foreign(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(ConnectionError):
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Foreign)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def __enter__(self):
        self.thread.start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
