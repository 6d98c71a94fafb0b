"""The `backfill` command against a driver without Spark: the real server, the real local registry."""

import json
import os
import re
import subprocess
import sys

import pytest
from support.console.command_line import backfill, running
from support.endings import assert_ending
from support.tables.jobs import write_yaml

from backfill_core.protocol.commands import Pause, Resume, Stop, Throttle
from backfill_spark.control.local_registry import control_file

ACKNOWLEDGED = re.compile(r"acknowledged at epoch \d+ \(attempt 1, revision (\d+)\) in \d+ ms\n")


class TestACommandIsSentAndItsAcknowledgementShown:
    @pytest.mark.parametrize(
        ("words", "command"),
        [
            (["pause"], Pause()),
            (["pause", "--all", "--force"], Pause(everything=True, force=True)),
            (["resume"], Resume()),
            (["throttle", "200k"], Throttle(200_000)),
            (["throttle", "1.5M", "--for", "30m"], Throttle(1_500_000, 1800)),
            (["throttle", "0"], Throttle(0)),
            (["throttle", "--bytes", "50MB", "--for", "30m"], Throttle(None, 1800, 50_000_000)),
            (["throttle", "200k", "--bytes", "1.5GB"], Throttle(200_000, None, 1_500_000_000)),
            (["throttle", "--bytes", "none"], Throttle(None)),
            (["throttle", "none"], Throttle(None)),
            (["stop"], Stop()),
            (["stop", "--force"], Stop(force=True)),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_each(self, job, words, command):
        """What is typed is what arrives."""
        done = backfill(*words)
        assert (done.exit_code, done.stderr) == (0, "")
        assert ACKNOWLEDGED.fullmatch(done.stdout.splitlines(keepends=True)[-1])
        assert [event.command for event in job.seen] == [command]

    @pytest.mark.parametrize(
        ("words", "effect"),
        [
            (["pause"], "the snapshot is paused, changes are still applied{at}; undo: backfill resume"),
            (["pause", "--all"], "the snapshot and changes are paused{at}; undo: backfill resume"),
            (["resume"], "running without a limit{at}"),
            (["throttle", "200k"], "the limit is 200,000 rows/s{at}; undo: backfill throttle none"),
            (["throttle", "1.5M", "--for", "90m"], "the limit is 1,500,000 rows/s for 1 h 30 min{at}; undo: backfill throttle none"),
            (["throttle", "0"], "the limit is 0 rows/s, so the snapshot is not read{at}; undo: backfill throttle none"),
            (["throttle", "200k", "--bytes", "5MB"], "the limit is 200,000 rows/s and 5.0 MB/s{at}; undo: backfill throttle none"),
            (["throttle", "none"], "there is no limit{at}"),
            (["stop"], "the attempt ends at a barrier{at}; resume it with backfill run"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )  # fmt: skip
    def test_the_answer_says_what_holds_now(self, job, words, effect):
        """The number of a revision answers no question of a user on call (faults U19 to U29)."""
        assert backfill(*words).stdout.splitlines()[0] == effect.format(at="; 25 %, 1,000 of 4,000 rows committed")

    def test_the_answer_to_resume_names_the_limit_that_is_left(self, job):
        """A job that resumes may still be slow."""
        backfill("throttle", "200k")
        assert backfill("resume").stdout.startswith("running, with a limit of 200,000 rows/s; 25 %")

    def test_revisions_grow(self, job):
        """Each command is newer than the last; else it would be ignored."""
        revisions = [
            ACKNOWLEDGED.fullmatch(backfill(word).stdout.splitlines(keepends=True)[-1])[1]
            for word in ("pause", "resume", "pause")
        ]
        assert revisions == ["1", "2", "3"]

    def test_no_acknowledgement_in_time(self, state_dir):
        """A user without an answer must not believe that it is in force."""
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
        """A script must see it."""
        with running(state_dir, different=True):
            done = backfill("verify", "-o", "json")
        assert done.exit_code == 48
        assert json.loads(done.stdout)["mismatches"] == [{"vnode": 7, "sourceRows": 10, "targetRows": 9}]

    def test_verify_that_ends_the_job_fails_for_the_difference(self, state_dir):
        """The job is over a moment after its receipt; the exit code must be the receipt's, not that of a missing driver."""
        with running(state_dir, different=True, ends=True):
            done = backfill("verify")
        assert done.exit_code == 48
        assert ACKNOWLEDGED.fullmatch(done.stderr)
        assert "1 of 256 vnodes differ" in done.stdout

    @pytest.mark.parametrize("option", ["--rows", "--statistics"])
    def test_rows_and_statistics_are_compared_here_and_need_the_file(self, job, option):
        """A driver compares by bytes, as its spec says: it is not asked."""
        done = backfill("verify", option)
        assert (done.exit_code, job.seen) == (2, [])
        assert f"{option} compares here, and needs -f FILE" in done.stderr

    def test_a_driver_that_ends_without_a_receipt(self, state_dir):
        """Nothing was proven, so it is no success either."""
        with running(state_dir, silent=True) as job:
            job.server.close()
            done = backfill("verify")
        assert (done.exit_code, "error: NotRunning" in done.stderr) == (4, True)


class TestTheJobThatIsMeant:
    def test_by_file(self, job, tmp_path):
        """The same file that it was started with."""
        spec = write_yaml(tmp_path / "job.yaml", "/s", "/t", name="job")
        assert backfill("pause", "-f", spec).exit_code == 0

    def test_by_id(self, job):
        """The id that `jobs` shows."""
        assert backfill("pause", "--job", "default/job").exit_code == 0

    def test_another_one_is_not_commanded(self, job):
        """With a name, the only running one is not good enough."""
        done = backfill("pause", "--job", "default/other")
        assert (done.exit_code, job.seen) == (4, [])
        assert "'default/other' is not running" in done.stderr
        assert "default/job" in done.stderr

    def test_of_several_one_must_be_named(self, state_dir):
        """A pause of the wrong job is worse than none."""
        with running(state_dir, "a/1") as one, running(state_dir, "a/2"):
            done = backfill("pause")
            assert (done.exit_code, one.seen) == (4, [])
            assert "a/1, a/2" in done.stderr
            assert backfill("pause", "--job", "a/1").exit_code == 0

    def test_none_runs(self, state_dir):
        """Say so, and how to start one."""
        done = backfill("pause")
        assert_ending(done, "NotRunning")
        assert "error: NotRunning: no backfill runs" in done.stderr

    def test_a_killed_one_is_named(self, state_dir):
        """What is left of it says which attempt it was."""
        with running(state_dir):
            left = control_file(state_dir, "default/job").read_text()
        control_file(state_dir, "default/job").write_text(left)
        done = backfill("status", "--job", "default/job")
        assert (done.exit_code, "attempt 1" in done.stderr, "was killed" in done.stderr) == (4, True, True)


class TestAReaderWhoHasGone:
    """`backfill … | head` ends in silence and with 141, as `git log | head` does: a script may set `pipefail`."""

    def ended(self, *words):
        reads, writes = os.pipe()
        os.close(reads)
        done = subprocess.run(
            [sys.executable, "-m", "backfill_cli", *words], stdout=writes, stderr=subprocess.PIPE, check=False
        )
        os.close(writes)
        return done.returncode, done.stderr

    @pytest.mark.parametrize(
        "words",
        [
            ["jobs"],
            ["status"],
            ["status", "--watch"],
            ["status", "--watch", "-o", "json"],
            ["pause"],
        ],
        ids=" ".join,
    )
    def test_is_no_error(self, job, words):
        """Lines come from click, blocks from rich, whose own end is exit code 1."""
        assert self.ended(*words) == (141, b"")

    def test_of_a_receipt_either(self, job):
        """The acknowledgement is on standard error."""
        code, errors = self.ended("verify")
        assert (code, bool(ACKNOWLEDGED.fullmatch(errors.decode()))) == (141, True)


class TestItStartsAtOnce:
    def test_help_loads_no_spark(self):
        """A command line that takes seconds to say its help is not used."""
        code = "import sys; from backfill_cli.__main__ import cli; print(any(n.split('.')[0] == 'pyspark' for n in sys.modules))"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"

    def test_commands_load_none_either(self, job):
        """A pause in an emergency must not wait for imports."""
        code = (
            "import sys\nfrom backfill_cli.__main__ import cli\ntry: cli(['pause'])\nexcept SystemExit: pass\n"
            "print(any(n.split('.')[0] == 'pyspark' for n in sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout.splitlines()[-1] == "False"
        assert ACKNOWLEDGED.search(done.stdout)


class TestCompletion:
    def test_of_a_job_are_those_that_run(self, state_dir):
        """Ids are long and hard to remember; what click's own script asks is asked here."""
        with running(state_dir, "default/orders"), running(state_dir, "shop/items"):
            environ = {
                "_BACKFILL_COMPLETE": "bash_complete",
                "COMP_WORDS": "backfill pause --job shop",
                "COMP_CWORD": "3",
            }
            code = "from backfill_cli.__main__ import main; main()"
            done = subprocess.run(
                [sys.executable, "-c", code], env={**os.environ, **environ}, capture_output=True, text=True
            )

        assert done.stdout.split() == ["plain,shop/items"], done.stderr
