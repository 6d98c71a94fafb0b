"""The `backfill` command against a driver without Spark: the server and the local registry are the product's."""

import json
import os
import re
import subprocess
import sys

import pytest
from support.console import forked
from support.console.command_line import backfill, running
from support.endings import assert_ending
from support.tables.jobs import write_yaml

from backfill_api.spec.override import Width
from backfill_core.protocol.commands import Pause, Rescale, Resume, Stop, Throttle
from backfill_spark.control import server
from backfill_spark.control.local_registry import control_file

AT = " at 25 % (1,000 rows)"
ACKNOWLEDGED = re.compile(r"[^\n]* at 25 % \(1,000 rows\)[^\n.]*\. Acknowledged at epoch \d+ in \d+\.\d s\.[^\n]*\n")


class TestACommandIsSentAndItsAcknowledgementShown:
    @pytest.mark.parametrize(
        ("arguments", "command"),
        [
            (["pause"], Pause()),
            (["pause", "--with-changes", "--force"], Pause(everything=True, force=True)),
            (["resume"], Resume()),
            (["throttle", "200k"], Throttle(200_000)),
            (["throttle", "1.5M", "--for", "30m"], Throttle(1_500_000, 1800)),
            (["throttle", "0"], Throttle(0)),
            (["throttle", "--bytes", "50MB", "--for", "30m"], Throttle(None, 1800, 50_000_000)),
            (["throttle", "200k", "--bytes", "1.5GB"], Throttle(200_000, None, 1_500_000_000)),
            (["throttle", "--bytes", "none"], Throttle(None)),
            (["throttle", "none"], Throttle(None)),
            (["rescale", "8"], Rescale(Width(max_in_flight=8))),
            (
                ["rescale", "--split-seconds", "9", "--executors", "3"],
                Rescale(Width(split_target_seconds=9, executors=3)),
            ),
            (["rescale", "1", "--chunk-rows", "0"], Rescale(Width(max_in_flight=1, chunk_rows=0))),
            (["stop"], Stop()),
            (["stop", "--force"], Stop(force=True)),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_each_command_arrives_as_typed(self, job, arguments, command):
        """The arguments become the same command in the driver."""
        done = backfill(*arguments)
        assert (done.exit_code, done.stderr) == (0, "")
        assert ACKNOWLEDGED.fullmatch(done.stdout)
        assert [event.command for event in job.seen] == [command]

    @pytest.mark.parametrize(
        ("arguments", "state", "following"),
        [
            (["pause"], "paused{at}; changes continue", "Undo: backfill resume"),
            (["pause", "--with-changes"], "paused{at}; changes are paused too", "Undo: backfill resume"),
            (["resume"], "running{at}, without a limit", ""),
            (["throttle", "200k"], "limited to 200,000 rows/s{at}", "Undo: backfill throttle none"),
            (["throttle", "1.5M", "--for", "90m"], "limited to 1,500,000 rows/s for 1 h 30 min{at}", "Undo: backfill throttle none"),
            (["throttle", "0"], "limited to 0 rows/s, so the snapshot is not read{at}", "Undo: backfill throttle none"),
            (["throttle", "200k", "--bytes", "5MB"], "limited to 200,000 rows/s and 5.0 MB/s{at}", "Undo: backfill throttle none"),
            (["throttle", "none"], "running without a limit{at}", "Undo: backfill throttle none"),
            (["rescale", "8"], "reading at most 8 pieces at a time{at}", ""),
            (["rescale", "--split-seconds", "9", "--executors", "3"], "reading splits of about 9 s, on 3 executors{at}", ""),
            (["stop"], "the attempt ends at a barrier{at}", "Next: backfill run -f FILE"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )  # fmt: skip
    def test_the_answer_is_the_state_the_proof_and_the_next_command(self, job, arguments, state, following):
        """A revision number does not show the effect of a command to a user on call (faults U19 to U29)."""
        proof = r"Acknowledged at epoch \d+ in \d+\.\d s\."
        answer = backfill(*arguments).stdout

        assert re.fullmatch(
            rf"{re.escape(state.format(at=AT))}\. {proof}{f' {following}' if following else ''}\n", answer
        )

    def test_the_answer_to_resume_names_the_remaining_limit(self, job):
        """A job that resumes may still be slow."""
        backfill("throttle", "200k")
        assert backfill("resume").stdout.startswith(f"running{AT}, limited to 200,000 rows/s. ")

    def test_undo_restores_the_controls_before(self, job):
        """A limit is undone by the limit before it, and not by none."""
        backfill("throttle", "200k", "--bytes", "5MB")
        backfill("pause", "--with-changes")

        assert backfill("throttle", "none").stdout.endswith("Undo: backfill throttle 200000 --bytes 5000000B\n")
        assert backfill("resume").stdout.endswith("Undo: backfill pause --with-changes\n")

    def test_undo_names_the_same_job(self, job, tmp_path):
        """Otherwise it would fail next to other jobs, or command another one."""
        spec = write_yaml(tmp_path / "my job.yaml", "/s", "/t", name="job")

        assert backfill("pause", "--job", "default/job").stdout.endswith("Undo: backfill resume --job default/job\n")
        assert backfill("pause", "-f", spec).stdout.endswith(f"Undo: backfill resume -f '{spec}'\n")

    def test_revisions_grow(self, job):
        """Each command has a higher revision than the last one; the driver ignores a lower one."""
        for command in ("pause", "resume", "pause"):
            assert backfill(command).exit_code == 0
        assert [event.revision for event in job.seen] == [1, 2, 3]

    def test_a_missing_acknowledgement_is_an_error(self, state_dir):
        """A user without an answer must not assume that the command is in force."""
        with running(state_dir, silent=True):
            done = backfill("pause", "--timeout", "0.1")
        assert_ending(done, "NotAcknowledged")
        assert "the driver has the command" in done.stderr

    def test_verify_shows_the_receipt(self, job):
        """The acknowledgement is not the result."""
        done = backfill("verify")
        assert done.exit_code == 0
        assert "source and target are equal" in done.stdout

    def test_verify_that_finds_a_difference_fails(self, state_dir):
        """The exit code shows the difference to a script."""
        with running(state_dir, different=True):
            done = backfill("verify", "-o", "json")
        assert done.exit_code == 48
        assert json.loads(done.stdout)["mismatches"] == [{"vnode": 7, "sourceRows": 10, "targetRows": 9}]

    def test_verify_that_ends_the_job_fails_for_the_difference(self, state_dir, monkeypatch):
        """The job ends right after its receipt; the exit code must be the receipt's, not that of a missing driver."""
        monkeypatch.setattr(server, "GOODBYE_S", 60.0)
        with running(state_dir, different=True, ends=True):
            done = backfill("verify")
        acknowledgement, hint = done.stderr.splitlines(keepends=True)
        assert done.exit_code == 48
        assert ACKNOWLEDGED.fullmatch(acknowledgement)
        assert "`backfill repair -f FILE`" in hint
        assert "1 of 256 vnodes differ" in done.stdout

    @pytest.mark.parametrize("option", ["--rows", "--statistics"])
    def test_rows_and_statistics_are_compared_locally_and_need_the_file(self, job, option):
        """A driver compares by bytes, as its spec configures; it receives no command."""
        done = backfill("verify", option)
        assert (done.exit_code, job.seen) == (2, [])
        assert f"{option} compares here, and needs -f FILE" in done.stderr

    def test_a_driver_that_ends_without_a_receipt_fails_verify(self, state_dir):
        """Nothing was proven, so it is no success either."""
        with running(state_dir, silent=True) as job:
            job.server.close()
            done = backfill("verify")
        assert (done.exit_code, "error: NotRunning" in done.stderr) == (4, True)


class TestTheJobThatIsMeant:
    def test_a_file_selects_its_job(self, job, tmp_path):
        """The same file as at the start of the job."""
        spec = write_yaml(tmp_path / "job.yaml", "/s", "/t", name="job")
        assert backfill("pause", "-f", spec).exit_code == 0

    def test_an_id_selects_its_job(self, job):
        """`backfill jobs` shows the id."""
        assert backfill("pause", "--job", "default/job").exit_code == 0

    def test_another_job_receives_no_command(self, job):
        """The only running job is no substitute for an explicit id."""
        done = backfill("pause", "--job", "default/other")
        assert (done.exit_code, job.seen) == (4, [])
        assert "'default/other' is not running" in done.stderr
        assert "default/job" in done.stderr

    def test_a_command_needs_an_id_if_several_jobs_run(self, state_dir):
        """A pause of the wrong job is worse than an error."""
        with running(state_dir, "a/1") as first_job, running(state_dir, "a/2"):
            done = backfill("pause")
            assert (done.exit_code, first_job.seen) == (4, [])
            assert "a/1, a/2" in done.stderr
            assert backfill("pause", "--job", "a/1").exit_code == 0

    def test_a_command_without_a_running_job_fails(self, state_dir):
        """The message also says how to start a job."""
        done = backfill("pause")
        assert_ending(done, "NotRunning")
        assert "error: NotRunning: no backfill runs" in done.stderr

    def test_a_killed_driver_is_named(self, state_dir):
        """The control file that it left contains its attempt."""
        with running(state_dir):
            left = control_file(state_dir, "default/job").read_text()
        control_file(state_dir, "default/job").write_text(left)
        done = backfill("status", "--job", "default/job")
        assert (done.exit_code, "attempt 1" in done.stderr, "was killed" in done.stderr) == (4, True, True)


class TestAReaderWhoHasGone:
    """`backfill … | head` prints no error and ends with 141, as `git log | head` does: a script may set `pipefail`."""

    def ended(self, *arguments):
        reads, writes = os.pipe()
        os.close(reads)
        done = forked.run(["-m", "backfill_cli", *arguments], stdout=writes, stderr=subprocess.PIPE)
        os.close(writes)
        return done.returncode, done.stderr

    @pytest.mark.parametrize(
        "arguments",
        [
            ["jobs"],
            ["status"],
            ["status", "--watch"],
            ["status", "--watch", "-o", "json"],
            ["pause"],
        ],
        ids=" ".join,
    )
    def test_a_closed_output_is_no_error(self, job, arguments):
        """click prints lines, and rich prints blocks; rich by itself ends with exit code 1."""
        assert self.ended(*arguments) == (141, b"")

    def test_a_closed_output_during_verify_is_no_error(self, job):
        """The acknowledgement is on standard error."""
        code, errors = self.ended("verify")
        assert (code, bool(ACKNOWLEDGED.fullmatch(errors.decode()))) == (141, True)


class TestItStartsAtOnce:
    def test_help_loads_no_spark(self):
        """Users avoid a command line that takes seconds to print its help."""
        code = "import sys; from backfill_cli.__main__ import cli; print(any(n.split('.')[0] == 'pyspark' for n in sys.modules))"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"

    def test_commands_load_no_spark(self, job):
        """A pause in an emergency must not wait for imports."""
        code = (
            "import sys\nfrom backfill_cli.__main__ import cli\ntry: cli(['pause'])\nexcept SystemExit: pass\n"
            "print(any(n.split('.')[0] == 'pyspark' for n in sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout.splitlines()[-1] == "False"
        assert ACKNOWLEDGED.search(done.stdout)


class TestCompletion:
    def test_job_ids_complete_to_running_jobs(self, state_dir):
        """Ids are long and hard to remember. The test sends the same request as click's completion script."""
        with running(state_dir, "default/orders"), running(state_dir, "shop/items"):
            environ = {
                "_BACKFILL_COMPLETE": "bash_complete",
                "COMP_WORDS": "backfill pause --job shop",
                "COMP_CWORD": "3",
            }
            code = "from backfill_cli.__main__ import main; main()"
            done = forked.run(["-c", code], env={**os.environ, **environ}, capture_output=True, text=True)

        assert done.stdout.split() == ["plain,shop/items"], done.stderr
