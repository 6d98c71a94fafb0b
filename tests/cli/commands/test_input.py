"""Wrong input ends with its exit code, its position and its hint."""

import json
import re

import pytest
from support.console.command_line import backfill
from support.tables.jobs import write_yaml

from backfill_cli.commands.options import read


class TestWrongInputEndsWithItsCode:
    def write(self, tmp_path, **spec):
        return write_yaml(tmp_path / "job.yaml", "/s", "/t", **spec)

    def test_each_error_of_a_file_has_its_line(self, tmp_path):
        """One run reports all errors; otherwise a user would correct the file ten times."""
        spec = self.write(tmp_path, throtle={"rowsPerSecond": 5}, barrier={"intervalMs": -1})
        done = backfill("validate", "-f", spec)
        lines = done.stderr.splitlines()
        assert done.exit_code == 20
        assert all(line.startswith("error: InvalidSpec: spec.") for line in lines)
        assert any("spec.throtle" in line and "throttle" in line for line in lines)
        assert any("spec.barrier.intervalMs" in line for line in lines)

    @pytest.mark.parametrize(
        "arguments",
        [["run"], ["validate"], ["plan"], ["run", "-f", "/nowhere.yaml"], ["explode"]],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_wrong_usage_ends_with_2(self, arguments):
        """2 is the usual exit code of command line tools."""
        assert backfill(*arguments).exit_code == 2

    @pytest.mark.parametrize(
        "arguments",
        [
            ["throttle", "-5"],
            ["throttle", "fast"],
            ["throttle", "1k", "--for", "0"],
            ["throttle", "--bytes", "5"],
            ["throttle", "1k", "--until", "2020-01-01T00:00:00Z"],
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_a_wrong_rate_is_refused(self, job, arguments):
        """The command line rejects it before it contacts a driver."""
        done = backfill(*arguments)
        assert (done.exit_code, job.seen) == (2, [])
        assert "write" in done.stderr

    def test_throttle_without_a_rate_is_refused(self, job):
        """`backfill throttle` without arguments could mean no limit or no rows."""
        done = backfill("throttle")
        assert (done.exit_code, job.seen) == (2, [])
        assert "give a RATE, or --bytes RATE" in done.stderr

    def test_a_binary_file_is_refused(self, tmp_path):
        """A Parquet file given by mistake does not print a stack trace."""
        (tmp_path / "x").write_bytes(b"PAR1\xff\xfe")
        assert backfill("validate", "-f", tmp_path / "x").exit_code == 2

    def test_a_wrong_variable_is_named(self, monkeypatch):
        """The message contains the variable and its value."""
        monkeypatch.setenv("BACKFILL_CORES", "many")
        done = backfill("jobs")
        assert (done.exit_code, "BACKFILL_CORES='many'" in done.stderr) == (2, True)

    def test_validate_prints_absolute_paths(self, tmp_path):
        """It needs no tables. Relative paths start at the file's folder, so the output shows where they lead."""
        done = backfill("validate", "-f", write_yaml(tmp_path / "job.yaml", "./lake/s", "s3a://b/t"))
        places = f"source: {tmp_path}/lake/s\ntarget: s3a://b/t\n"
        assert (done.exit_code, done.stdout) == (0, f"default/job: valid (Snapshot, Upsert)\n{places}")

    def test_a_file_from_standard_input_is_read(self, tmp_path, monkeypatch):
        """A pipe has no folder: relative paths start at the current directory."""
        monkeypatch.chdir(tmp_path)
        text = write_yaml(tmp_path / "job.yaml", "./s", "/t").read_text()
        done = backfill("validate", "-f", "-", text=text)
        assert (done.exit_code, f"source: {tmp_path}/s\n" in done.stdout) == (0, True)

    def test_invalid_sql_is_refused(self, tmp_path):
        """Spark's own parser finds the field, the expression and the position, before any table is opened."""
        bad = write_yaml(
            tmp_path / "job.yaml", "/s", "/t", transform={"select": ["id", "upper(a) AS b"], "where": "amount > "}
        )
        done = backfill("validate", "-f", bad)
        assert (done.exit_code, done.stdout) == (21, "")
        assert "error: InvalidTransform: spec.transform.where: 'amount > ' is not SQL: " in done.stderr

    def test_invalid_yaml_shows_the_position(self, tmp_path):
        """A caret marks the character, as in compilers."""
        (tmp_path / "job.yaml").write_text("spec:\n  source: {type: Delta\n  target: 1\n")
        done = backfill("validate", "-f", tmp_path / "job.yaml")
        assert done.exit_code == 20
        assert "is not YAML: while parsing a flow mapping" in done.stderr
        assert re.search(r"\(line 3, column \d+\).*\n    target: 1\n {4,}\^\n$", done.stderr)

    @pytest.mark.parametrize(
        "arguments", [["run", "orders.yaml"], ["run"], ["throttle", "fast"], ["nothing"]], ids=" ".join
    )
    def test_every_error_has_one_shape(self, arguments):
        """Reason, message, hint: a script that searches for `error:` finds all of them."""
        done = backfill(*arguments)
        assert done.exit_code == 2
        assert re.match(r"error: InvalidUsage: .+\nhint: .+\n$", done.stderr)

    def test_a_file_without_its_option_gets_a_hint(self):
        """It is the most common first attempt."""
        assert "Write it as `backfill run -f orders.yaml`." in backfill("run", "orders.yaml").stderr

    def test_a_java_home_without_java_is_named(self, tmp_path, monkeypatch):
        """The user must fix this variable."""
        monkeypatch.setenv("JAVA_HOME", "/nope")
        spec = write_yaml(tmp_path / "job.yaml", "/s", "/t", transform={"where": "id > 1"})
        assert "JAVA_HOME is /nope, which contains no Java" in backfill("validate", "-f", spec).stderr
        assert "JAVA_HOME is /nope, which contains no Java" in backfill("plan", "-f", spec).stderr


class TestASetChangesTheFile:
    def test_a_changed_file_is_validated(self, tmp_path):
        """The command line reports a typing error in `--set` like one in the file."""
        spec = write_yaml(tmp_path / "job.yaml", "/s", "/t")
        done = backfill("run", "-f", spec, "--set", "spec.throtle.rowsPerSecond=5")
        assert (done.exit_code, "spec.throtle" in done.stderr) == (20, True)
        done = backfill("run", "-f", spec, "--set", "spec.after=[")
        assert (done.exit_code, "InvalidUsage: --set 'spec.after=[': '[' is not YAML" in done.stderr) == (2, True)
        assert backfill("run", "-f", spec, "--set", "spec.after").exit_code == 2

    def test_set_values_are_yaml(self, tmp_path):
        """Numbers are numbers, and lists are lists."""
        spec = write_yaml(tmp_path / "job.yaml", "/s", "/t")
        changed = read(spec, ["spec.throttle.rowsPerSecond=5", "spec.after=Follow", "spec.source.delta.key=[a, b]"])
        assert changed.spec.throttle.rows_per_second == 5
        assert (changed.spec.after, changed.spec.source.params.key) == ("Follow", ("a", "b"))

    def test_set_values_in_braces_may_be_json(self, tmp_path):
        """A character outside the basic multilingual plane is two escapes in JSON, and an error in YAML (fault B13)."""
        spec = write_yaml(tmp_path / "job.yaml", "/s", "/t")
        text = json.dumps({"where": "name = '😀'"})
        assert read(spec, [f"spec.transform={text}"]).spec.transform.where == "name = '😀'"


class TestSettingsOfSpark:
    """`--conf` and `--packages` override `spec.spark.conf`, and are validated like it."""

    def test_flags_override_the_file(self, tmp_path):
        """A flag changes one setting for one run and keeps the others of the file."""
        file = write_yaml(tmp_path / "job.yaml", "/a", "/b", spark={"conf": {"spark.a": "1", "spark.b": "2"}})
        conf = {"spark.b": "3", "spark.jars.packages": "g:n:1"}

        assert read(file, conf=conf).spec.spark.conf == {"spark.a": "1"} | conf

    @pytest.mark.parametrize("command", ["run", "plan", "verify"])
    @pytest.mark.parametrize(
        ("given", "code", "message"),
        [("spark.master=local[9]", 20, "is set by the operator"), ("master", 2, "write it as spark.name=value")],
    )
    def test_wrong_settings_are_refused_before_spark_starts(self, state_dir, tmp_path, command, given, code, message):
        """The cases are a typing error, and a setting that no spec may contain."""
        done = backfill(command, "-f", write_yaml(tmp_path / "job.yaml", "/a", "/b"), "--conf", given)

        assert done.exit_code == code
        assert message in done.output
