"""Commands for the author of a manifest: init, schema, completion, and examples in every help."""

import json
import os
import pty
import shlex
import subprocess
import sys

import click
import pytest
import yaml
from support.console.command_line import backfill
from support.console.forked import ForkedPython
from support.repository import ROOT
from support.tables.jobs import write_yaml

from backfill.draft import name_of, place_of
from backfill_cli.__main__ import cli
from backfill_cli.commands.usage_examples import EXAMPLES

SCHEMA = ROOT / "crds" / "backfill.schema.json"
MANIFESTS = sorted(
    path for path in (ROOT / "examples").rglob("*.yaml") if "\nkind: Backfill\n" in f"\n{path.read_text()}"
)


class TestInitWithoutATerminal:
    """A script gets an error and never a question."""

    @pytest.mark.parametrize(
        ("given", "flag"), [([], "--source"), (["--source", "lake/a"], "--target"), (["--target", "b"], "--source")]
    )
    def test_missing_flag_is_named(self, given, flag):
        """A question would wait for ever in a pipeline."""
        done = backfill("init", *given, text="")
        assert (done.exit_code, done.stdout) == (2, "")
        assert f"error: InvalidUsage: give {flag}: a path, a URI" in done.stderr

    def test_existing_file_is_never_changed(self, tmp_path, monkeypatch):
        """An author may have edited it. The check is before the start of Spark."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "copy.yaml").write_text("mine")

        for given in (["--target", "lake/copy"], ["--target", "x", "-f", "copy.yaml"]):
            done = backfill("init", "--source", "lake/a", *given)
            assert (done.exit_code, "copy.yaml exists and is not overwritten" in done.stderr) == (2, True)

        assert [path.name for path in tmp_path.iterdir()] == ["copy.yaml"]
        assert (tmp_path / "copy.yaml").read_text() == "mine"

    def test_missing_folder_is_named(self, tmp_path):
        """It is not made: a typing error would be hidden."""
        done = backfill("init", "--source", "a", "--target", "b", "-f", tmp_path / "no" / "job.yaml")
        assert (done.exit_code, f"the folder {tmp_path / 'no'} does not exist" in done.stderr) == (2, True)

    @pytest.mark.parametrize("source", ["s3://bucket/a", "kafka://broker/events", "file:relative"])
    def test_invalid_location_is_refused_before_the_start(self, tmp_path, source):
        """The models check it as in a file."""
        done = backfill("init", "--source", source, "--target", "b", "-f", tmp_path / "job.yaml")
        assert (done.exit_code, "spec.source." in done.stderr) == (20, True)
        assert list(tmp_path.iterdir()) == []


class TestInitOnATerminal:
    """A person is asked for a location that no flag gives."""

    def test_missing_source_is_asked_for(self):
        """The answer counts as if it was given with the flag: an invalid one ends with the code of an invalid file."""
        leader, follower = pty.openpty()
        words = ["-m", "backfill_cli", "init", "--target", "lake/copy"]
        asked = ForkedPython(words, stdin=follower, stdout=follower, stderr=follower, start_new_session=True)
        try:
            os.close(follower)
            seen = b""
            while b": " not in seen:
                seen += os.read(leader, 1024)
            os.write(leader, b"s3://bucket/orders\n")
            code = asked.wait(200)
        finally:
            asked.kill()
            asked.wait()
            os.close(leader)

        assert (seen.startswith(b"source (a path, a URI"), code) == (True, 20)


class TestLocations:
    """One flag names a path, a table of the catalog or a topic."""

    def test_location_becomes_fields_of_the_manifest(self, tmp_path, monkeypatch):
        """Relative paths are relative to the manifest, which may be in another folder."""
        monkeypatch.chdir(tmp_path)
        fields = {
            text: dict(place_of(text, tmp_path / "jobs").fields)
            for text in ("lake/a", "jobs/b", "/lake/a", "s3a://bucket/a", "shop.orders", "kafka://b:9092/events")
        }

        assert fields == {
            "lake/a": {"path": "../lake/a"},
            "jobs/b": {"path": "./b"},
            "/lake/a": {"path": "/lake/a"},
            "s3a://bucket/a": {"path": "s3a://bucket/a"},
            "shop.orders": {"table": "shop.orders"},
            "kafka://b:9092/events": {"bootstrapServers": "b:9092", "topic": "events"},
        }

    @pytest.mark.parametrize(
        ("target", "name"),
        [
            ("lake/Orders_copy", "orders-copy"),
            ("s3a://bucket", "bucket"),
            ("shop.orders", "orders"),
            ("/lake/--", "backfill"),
        ],
    )
    def test_name_follows_from_the_target(self, tmp_path, target, name):
        """A cluster accepts it."""
        assert name_of(place_of(target, tmp_path)) == name


def mistakes(schema, value, path=""):
    """Return the paths of a document at which it does not match a JSON Schema, by the keywords that the schema uses."""
    if "const" in schema and value != schema["const"]:
        return [path]
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    kind = kinds.get(schema.get("type"))
    if kind is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        return [path]
    if "enum" in schema and value not in schema["enum"]:
        return [path]
    if isinstance(value, dict):
        fields, other = schema.get("properties", {}), schema.get("additionalProperties", True)
        missing = [f"{path}.{name}" for name in schema.get("required", ()) if name not in value]
        unknown = [f"{path}.{name}" for name in value if name not in fields and other is False]
        below = [(fields.get(name, other), part, f"{path}.{name}") for name, part in value.items()]
        return [*missing, *unknown, *(at for part in below if isinstance(part[0], dict) for at in mistakes(*part))]
    if isinstance(value, list):
        return [at for number, item in enumerate(value) for at in mistakes(schema["items"], item, f"{path}[{number}]")]
    return []


class TestSchema:
    """An editor completes fields and marks mistakes while the author types."""

    def test_command_prints_the_file_of_the_repository(self):
        """A user without a clone gets the same schema."""
        done = backfill("schema")
        assert (done.exit_code, done.stdout) == (0, SCHEMA.read_text())

    @pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
    def test_example_names_the_schema_and_matches_it(self, path):
        """The line is relative to the example."""
        first, *_ = path.read_text().splitlines()
        named = first.removeprefix("# yaml-language-server: $schema=")
        assert (path.parent / named).resolve() == SCHEMA
        for document in yaml.safe_load_all(path.read_text()):
            assert mistakes(json.loads(SCHEMA.read_text()), document) == []

    @pytest.mark.parametrize(
        ("change", "path"),
        [
            ({"throtle": {}}, ".spec.throtle"),
            ({"source": {"type": "Delta", "delta": {"path": "/a", "keys": []}}}, ".spec.source.delta.keys"),
            ({"verify": "Always"}, ".spec.verify"),
            ({"throttle": {"rowsPerSecond": "fast"}}, ".spec.throttle.rowsPerSecond"),
            ({"source": {}}, ".spec.source.type"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_mistake_is_marked(self, change, path):
        """Unknown names, wrong types and unknown values."""
        manifest = yaml.safe_load((ROOT / "examples" / "orders.yaml").read_text())
        manifest["spec"] |= change
        assert mistakes(json.loads(SCHEMA.read_text()), manifest) == [path]

    def test_pod_template_is_open(self):
        """Kubernetes defines its fields; the cluster's rules decide which are allowed."""
        manifest = yaml.safe_load((ROOT / "examples" / "orders.yaml").read_text())
        manifest["spec"]["driver"] = {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}
        assert mistakes(json.loads(SCHEMA.read_text()), manifest) == []


class TestCompletion:
    """Each shell gets a script that calls the command."""

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_script_names_the_command_and_its_variable(self, shell):
        """click answers when the shell sets this variable."""
        done = backfill("completion", shell)
        assert (done.exit_code, f"_BACKFILL_COMPLETE={shell}_complete" in done.stdout) == (0, True)

    def test_bash_completes_a_command(self):
        """The script runs in the shell that it is for, with the real command."""
        script = backfill("completion", "bash").stdout
        program = f'backfill() {{ {shlex.quote(sys.executable)} -m backfill_cli "$@"; }}\nexport -f backfill\n'
        ask = "COMP_WORDS=(backfill thr) COMP_CWORD=1\n_backfill_completion backfill\necho ${COMPREPLY[@]}\n"
        # `env` runs no function, so the wrapper is a file.
        ask = f"{script.replace('$1)', 'bash -c backfill)')}\n{ask}"
        done = subprocess.run(["bash", "-c", program + ask], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["throttle"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the files that the examples name."""
    monkeypatch.chdir(tmp_path)
    for name in ("orders.yaml", "copy.yaml"):
        write_yaml(tmp_path / name, "/s", "/t")
    return tmp_path


class TestExamplesInHelp:
    """A reader copies the first example and changes it."""

    @pytest.mark.parametrize("name", ["", *sorted(cli.commands)])
    def test_help_ends_with_two_examples_that_parse(self, name, folder):
        """An example with a wrong option is worse than none."""
        shown = backfill(*([name] if name else []), "--help").stdout.partition("Examples:\n")[2]
        lines = [line.strip() for line in shown.splitlines() if line.strip()]
        assert lines == list(EXAMPLES[name])
        assert len(lines) == 2

        for line in lines:
            calls = [shlex.split(call.split(" > ")[0]) for part in line.split(" && ") for call in part.split(" | ")]
            ours = [call for call in calls if call[0] == "backfill"]
            assert ours
            for _, command, *arguments in ours:
                assert name in ("", command)
                with cli.commands[command].make_context(command, arguments, parent=click.Context(cli)) as parsed:
                    assert parsed.command is cli.commands[command]
