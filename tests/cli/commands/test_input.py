"""What a person types or writes wrong ends with its code, its place and its hint."""

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
        """All at once, or a user would correct the file ten times."""
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
        [["throttle", "-5"], ["throttle", "fast"], ["throttle", "1k", "--for", "0"], ["throttle", "--bytes", "5"]],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_rates(self, job, words):
        """Refused before anybody is asked."""
        done = backfill(*words)
        assert (done.exit_code, job.seen) == (2, [])
        assert "write" in done.stderr

    def test_a_limit_of_nothing(self, job):
        """`backfill throttle` alone could mean all or nothing."""
        done = backfill("throttle")
        assert (done.exit_code, job.seen) == (2, [])
        assert "give a RATE, or --bytes RATE" in done.stderr

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
        done = backfill("validate", "-f", "-", text=text)
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
        """Reason, message, hint: a script that looks for `error:` finds all of them."""
        done = backfill(*words)
        assert done.exit_code == 2
        assert re.match(r"error: InvalidUsage: .+\nhint: .+\n$", done.stderr)

    def test_a_file_without_its_option(self):
        """What everybody types first."""
        assert "Write it as `backfill run -f orders.yaml`." in backfill("run", "orders.yaml").stderr

    def test_a_java_home_without_java(self, tmp_path, monkeypatch):
        """The variable is named: it is what must be mended."""
        monkeypatch.setenv("JAVA_HOME", "/nope")
        spec = write_yaml(tmp_path / "job.yaml", "/s", "/t", transform={"where": "id > 1"})
        assert "JAVA_HOME is /nope, which contains no Java" in backfill("validate", "-f", spec).stderr
        assert "JAVA_HOME is /nope, which contains no Java" in backfill("plan", "-f", spec).stderr


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
        spec = write_yaml(tmp_path / "job.yaml", "/s", "/t")
        changed = read(spec, ["spec.throttle.rowsPerSecond=5", "spec.after=Follow", "spec.source.delta.key=[a, b]"])
        assert changed.spec.throttle.rows_per_second == 5
        assert (changed.spec.after, changed.spec.source.params.key) == ("Follow", ("a", "b"))

    def test_values_in_braces_may_be_json(self, tmp_path):
        """A letter beyond the first plane is two escapes in JSON, and an error in YAML (fault B13)."""
        spec = write_yaml(tmp_path / "job.yaml", "/s", "/t")
        text = json.dumps({"where": "name = '😀'"})
        assert read(spec, [f"spec.transform={text}"]).spec.transform.where == "name = '😀'"


class TestSettingsOfSpark:
    """`--conf` and `--packages` are laid over `spec.spark.conf`, and checked like it."""

    def test_are_laid_over_the_file(self, tmp_path):
        """A flag changes one setting for one run and keeps the others of the file."""
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
