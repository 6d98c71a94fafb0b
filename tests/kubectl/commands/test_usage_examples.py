"""The `--help` of each command has two examples that the command accepts."""

import shlex

import click
import pytest
from click.testing import CliRunner

from backfill_kubectl.__main__ import cli
from backfill_kubectl.commands.usage_examples import EXAMPLES


@pytest.mark.parametrize("name", ["", *cli.commands])
def test_each_command_has_two_examples_that_parse(name, tmp_path, monkeypatch):
    """An example with a wrong option is worse than none."""
    for file in ("orders.yaml", "jobs/*.yaml"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)

    shown = CliRunner().invoke(cli, [*([name] if name else []), "--help"]).stdout.partition("Examples:\n")[2]

    lines = [line.strip() for line in shown.splitlines() if line.strip()]
    assert lines == list(EXAMPLES[name])
    assert len(lines) == 2
    for line in lines:
        words = shlex.split(line.split(" > ")[0])
        _, *words = words if words[0] == "kubectl-backfill" else words[1:]
        assert name in ("", words[0])
        with cli.commands[words[0]].make_context(words[0], words[1:], parent=click.Context(cli)) as parsed:
            assert parsed.command is cli.commands[words[0]]
