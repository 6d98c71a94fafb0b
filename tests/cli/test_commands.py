"""The `backfill` command against a driver without Spark: the real server, the real rendezvous."""

import json
import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from support.fake_driver import ScriptedJob
from support.jobs import write_yaml

from backfill_cli.__main__ import cli
from backfill_cli.options import read
from backfill_core.messages import Pause, Resume, Stop, Throttle
from backfill_spark.rendezvous import Rendezvous, control_file

ACKNOWLEDGED = re.compile(r"acknowledged at epoch \d+ \(attempt 1, revision (\d+)\) in \d+ ms\n")


@pytest.fixture
def state_dir(tmp_path, monkeypatch):
    folder = tmp_path / "state"
    monkeypatch.setenv("BACKFILL_STATE_DIR", str(folder))
    return folder


@contextmanager
def running(state_dir, job_id="default/job", **script):
    """A driver of a job that can be found."""
    with Rendezvous(state_dir, job_id) as meeting, ScriptedJob(**script) as job:
        meeting.publish(url=job.server.url, token=job.token, attempt=job.attempt)
        yield job


@pytest.fixture
def job(state_dir):
    with running(state_dir) as scripted:
        yield scripted


def backfill(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False, prog_name="backfill")


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
        assert ACKNOWLEDGED.fullmatch(done.stdout)
        assert [event.command for event in job.seen] == [command]

    def test_revisions_grow(self, job):
        """Each command is newer than the last; else it would be ignored."""
        revisions = [ACKNOWLEDGED.fullmatch(backfill(word).stdout)[1] for word in ("pause", "resume", "pause")]
        assert revisions == ["1", "2", "3"]

    def test_no_acknowledgement_in_time(self, state_dir):
        """Somebody who is not answered must not believe that it is in force."""
        with running(state_dir, silent=True):
            done = backfill("pause", "--timeout", "0.1")
        assert done.exit_code == 5
        assert "error: NotAcknowledged" in done.stderr
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
        """The job is over a moment after its receipt; the exit code must be the receipt's, not that nobody runs."""
        with running(state_dir, different=True, ends=True):
            done = backfill("verify")
        assert done.exit_code == 48
        assert ACKNOWLEDGED.fullmatch(done.stderr)
        assert "1 of 256 vnodes differ" in done.stdout

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
        assert done.exit_code == 4
        assert "error: NotRunning: no backfill runs" in done.stderr
        assert "cure: " in done.stderr

    def test_a_killed_one_is_named(self, state_dir):
        """What is left of it says which attempt it was."""
        with running(state_dir):
            left = control_file(state_dir, "default/job").read_text()
        control_file(state_dir, "default/job").write_text(left)
        done = backfill("status", "--job", "default/job")
        assert (done.exit_code, "attempt 1" in done.stderr, "was killed" in done.stderr) == (4, True, True)


class TestStatus:
    def test_table(self, job):
        """For people."""
        done = backfill("status")
        assert done.exit_code == 0
        assert "1,000 of 4,000 rows" in done.stdout

    def test_json(self, job):
        """For scripts."""
        words = json.loads(backfill("status", "-o", "json").stdout)
        assert (words["jobId"], words["rowsDone"]) == ("default/job", 1000)

    def test_yaml(self, job):
        """For whoever reads YAML all day."""
        assert "rowsDone: 1000" in backfill("status", "-o", "yaml").stdout

    def test_it_shows_what_was_commanded(self, job):
        """Why is it slow? Because somebody said so."""
        backfill("throttle", "200k")
        shown = backfill("status").stdout
        assert "throttled by command (revision 1)" in shown
        assert "revision 1 applied at epoch" in shown

    def test_a_driver_that_ends_while_it_is_looked_at_is_no_driver(self, state_dir):
        """With --offline the target is asked then (here for the file it needs), instead of saying `refused`."""
        with running(state_dir) as job:
            job.server.close()
            assert backfill("status").exit_code == 4
            done = backfill("status", "--offline")
        assert (done.exit_code, "give the Backfill with -f FILE" in done.stderr) == (2, True)

    @pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 200 OK\r\nContent-Length: 90\r\n\r\n{", b"what?\r\n\r\n"])
    def test_an_answer_that_was_cut_off_is_none(self, state_dir, answer):
        """A driver may die in the middle of a word."""
        with socket.create_server(("127.0.0.1", 0)) as listening, Rendezvous(state_dir, "default/job") as meeting:
            meeting.publish(url=f"http://127.0.0.1:{listening.getsockname()[1]}", token="t", attempt=1)

            def once():
                connection, _ = listening.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)

            with ThreadPoolExecutor(1) as pool:
                pool.submit(once)
                done = backfill("status")
        assert (done.exit_code, "error: NotRunning" in done.stderr) == (4, True)

    def test_jobs(self, state_dir):
        """All that run on this machine."""
        assert "no backfill runs" in backfill("jobs").stdout
        with running(state_dir, "a/1"), running(state_dir, "a/2"):
            assert sorted(line.split()[0] for line in backfill("jobs").stdout.splitlines()) == ["a/1", "a/2"]
            found = json.loads(backfill("jobs", "-o", "json").stdout)
            assert {one["jobId"] for one in found} == {"a/1", "a/2"}
            assert {type(one["progress"]["epoch"]) for one in found} == {int}

    def test_watch_ends_with_the_driver(self, job):
        """A watch that outlives its job hangs a script."""
        watch = subprocess.Popen(
            [sys.executable, "-m", "backfill_cli", "status", "--watch", "-o", "json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert json.loads(watch.stdout.readline())["rowsDone"] == 1000
        job.server.close()
        _, said = watch.communicate(timeout=30)
        assert (watch.returncode, "ended" in said) == (0, True)


class TestWrongInputEndsWithItsCode:
    def write(self, tmp_path, **spec):
        return write_yaml(tmp_path / "job.yaml", "/s", "/t", **spec)

    def test_each_error_of_a_file_has_its_line(self, tmp_path):
        """All at once: nobody wants to mend a file ten times."""
        spec = self.write(tmp_path, throtle={"rowsPerSecond": 5}, barrier={"intervalMs": -1})
        done = backfill("validate", "-f", spec)
        lines = done.stderr.splitlines()
        assert done.exit_code == 20
        assert all(line.startswith("error: InvalidSpec: spec.") for line in lines)
        assert any("spec.throtle" in line and "throttle" in line for line in lines)
        assert any("spec.barrier.intervalMs" in line for line in lines)

    @pytest.mark.parametrize(
        "words",
        [["run"], ["validate"], ["plan"], ["run", "-f", "/nowhere.yaml"], ["explode"]],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_usage(self, words):
        """2 is what every tool ends with."""
        assert backfill(*words).exit_code == 2

    @pytest.mark.parametrize(
        "words",
        [["throttle", "-5"], ["throttle", "fast"], ["throttle", "1k", "--for", "0"]],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_rates(self, job, words):
        """Refused before anybody is asked."""
        done = backfill(*words)
        assert (done.exit_code, job.seen) == (2, [])
        assert "write" in done.stderr

    def test_a_file_that_is_no_text(self, tmp_path):
        """A Parquet file given by mistake is not a stack trace."""
        (tmp_path / "x").write_bytes(b"PAR1\xff\xfe")
        assert backfill("validate", "-f", tmp_path / "x").exit_code == 2

    def test_a_bad_variable(self, monkeypatch):
        """It names the variable."""
        monkeypatch.setenv("BACKFILL_CORES", "many")
        done = backfill("jobs")
        assert (done.exit_code, "BACKFILL_CORES='many'" in done.stderr) == (2, True)

    def test_validate(self, tmp_path):
        """Without tables; it says where they would be, because a relative path is one from the file's folder."""
        done = backfill("validate", "-f", write_yaml(tmp_path / "job.yaml", "./lake/s", "s3a://b/t"))
        places = f"source: {tmp_path}/lake/s\ntarget: s3a://b/t\n"
        assert (done.exit_code, done.stdout) == (0, f"default/job: valid (Snapshot, Upsert)\n{places}")

    def test_a_file_from_standard_input(self, tmp_path, monkeypatch):
        """A pipe has no folder: its paths are seen from where we are."""
        monkeypatch.chdir(tmp_path)
        text = write_yaml(tmp_path / "job.yaml", "./s", "/t").read_text()
        done = CliRunner().invoke(cli, ["validate", "-f", "-"], input=text)
        assert (done.exit_code, f"source: {tmp_path}/s\n" in done.stdout) == (0, True)

    def test_sql_that_is_none(self, tmp_path):
        """Spark's own parser says so: field, text and place, before anything is opened."""
        bad = write_yaml(
            tmp_path / "job.yaml", "/s", "/t", transform={"select": ["id", "upper(a) AS b"], "where": "amount > "}
        )
        done = backfill("validate", "-f", bad)
        assert (done.exit_code, done.stdout) == (21, "")
        assert "error: InvalidTransform: spec.transform.where: 'amount > ' is not SQL: " in done.stderr

    def test_yaml_that_is_none_shows_the_place(self, tmp_path):
        """A caret below the character, as every compiler does."""
        (tmp_path / "job.yaml").write_text("spec:\n  source: {type: Delta\n  target: 1\n")
        done = backfill("validate", "-f", tmp_path / "job.yaml")
        assert done.exit_code == 20
        assert "is not YAML: while parsing a flow mapping" in done.stderr
        assert re.search(r"\(line 3, column \d+\).*\n    target: 1\n {4,}\^\n$", done.stderr)

    @pytest.mark.parametrize(
        "words", [["run", "orders.yaml"], ["run"], ["throttle", "fast"], ["nothing"]], ids=" ".join
    )
    def test_every_error_has_one_shape(self, words):
        """Reason, message, cure: a script that looks for `error:` finds all of them."""
        done = backfill(*words)
        assert done.exit_code == 2
        assert re.match(r"error: InvalidUsage: .+\ncure: .+\n$", done.stderr)

    def test_a_file_without_its_option(self):
        """What everybody types first."""
        assert "Write it as `backfill run -f orders.yaml`." in backfill("run", "orders.yaml").stderr

    def test_a_java_home_without_java(self, tmp_path, monkeypatch):
        """The variable is named: it is what must be mended."""
        monkeypatch.setenv("JAVA_HOME", "/nope")
        spec = write_yaml(tmp_path / "job.yaml", "/s", "/t", transform={"where": "id > 1"})
        assert "JAVA_HOME is /nope, where no Java is" in backfill("validate", "-f", spec).stderr
        assert "JAVA_HOME is /nope, where no Java is" in backfill("plan", "-f", spec).stderr


class TestAReaderWhoHasGone:
    def test_is_no_bug(self, state_dir):
        """`backfill jobs | head` ends in silence, as other tools do."""
        reads, writes = os.pipe()
        os.close(reads)
        done = subprocess.run(
            [sys.executable, "-m", "backfill_cli", "jobs"], stdout=writes, stderr=subprocess.PIPE, check=False
        )
        os.close(writes)
        assert (done.returncode, done.stderr) == (1, b"")


class TestASetChangesTheFile:
    def test_it_is_validated_like_the_file(self, tmp_path):
        """A typing error on the command line is found like one in the file."""
        spec = write_yaml(tmp_path / "job.yaml", "/s", "/t")
        done = backfill("run", "-f", spec, "--set", "spec.throtle.rowsPerSecond=5")
        assert (done.exit_code, "spec.throtle" in done.stderr) == (20, True)
        done = backfill("run", "-f", spec, "--set", "spec.after=[")
        assert (done.exit_code, "InvalidUsage: --set 'spec.after=[': '[' is not YAML" in done.stderr) == (2, True)
        assert backfill("run", "-f", spec, "--set", "spec.after").exit_code == 2

    def test_values_are_yaml(self, tmp_path):
        """Numbers are numbers, and lists are lists."""
        from backfill_cli.options import read

        spec = write_yaml(tmp_path / "job.yaml", "/s", "/t")
        changed = read(spec, ["spec.throttle.rowsPerSecond=5", "spec.after=Follow", "spec.source.delta.key=[a, b]"])
        assert changed.spec.throttle.rows_per_second == 5
        assert (changed.spec.after, changed.spec.source.delta.key) == ("Follow", ("a", "b"))


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
        assert ACKNOWLEDGED.match(done.stdout)


class TestSettingsOfSpark:
    """`--conf` and `--packages` are laid over `spec.spark.conf`, and checked like it."""

    def test_are_laid_over_the_file(self, tmp_path):
        file = write_yaml(tmp_path / "job.yaml", "/a", "/b", spark={"conf": {"spark.a": "1", "spark.b": "2"}})
        conf = {"spark.b": "3", "spark.jars.packages": "g:n:1"}

        assert read(file, conf=conf).spec.spark.conf == {"spark.a": "1"} | conf

    @pytest.mark.parametrize("command", ["run", "plan", "verify"])
    @pytest.mark.parametrize(
        ("given", "code", "words"),
        [("spark.master=local[9]", 20, "is set by the operator"), ("master", 2, "write it as spark.name=value")],
    )
    def test_are_refused_before_spark_starts(self, state_dir, tmp_path, command, given, code, words):
        """A typing error, and what no spec may set."""
        done = backfill(command, "-f", write_yaml(tmp_path / "job.yaml", "/a", "/b"), "--conf", given)

        assert done.exit_code == code
        assert words in done.output


class TestCompletion:
    def test_of_a_job_are_those_that_run(self, state_dir):
        """Ids are long, and nobody remembers them; what click's own script asks is asked here."""
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
