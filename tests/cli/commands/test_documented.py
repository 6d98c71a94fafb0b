"""What can be typed is described, so that no user has to find it by chance."""

import re

import pytest
from support.repository import ROOT

from backfill_cli.__main__ import cli
from backfill_spark.settings import DriverSettings

PAGE = (ROOT / "docs" / "operating.md").read_text()
NOT_FOR_PEOPLE = re.compile("crash_at|master|mode|operator_.*|control_.*|termination_log")
"""Set by the crash suite, or by the operator for the driver in a pod."""

COMMANDS = sorted(cli.commands)
OPTIONS = sorted(
    {option for command in cli.commands.values() for parameter in command.params for option in parameter.opts}
)


class TestThePageAboutOperating:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_names_every_command(self, command):
        """A command that is only in --help is found by those who know it already."""
        assert re.search(rf"`backfill {command}\b", PAGE)

    @pytest.mark.parametrize("option", [option for option in OPTIONS if option.startswith("--")])
    def test_names_every_option(self, option):
        """By its long name; `--file` and `--output` are everywhere, as -f and -o."""
        short = {"--file": "-f job.yaml", "--output": "-o json"}
        assert re.search(rf"{re.escape(short.get(option, option))}(?![\w-])", PAGE)

    @pytest.mark.parametrize(
        "setting", [one for one in DriverSettings.model_fields if not NOT_FOR_PEOPLE.fullmatch(one)]
    )
    def test_names_every_variable(self, setting):
        """A process is set up by these."""
        assert f"`{'JAVA_HOME' if setting == 'java_home' else 'BACKFILL_' + setting.upper()}`" in PAGE
