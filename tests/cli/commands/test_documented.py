"""docs/operating.md describes every command, option and variable."""

import re

import pytest
from support.repository import ROOT

from backfill_cli.__main__ import cli
from backfill_spark.settings import DriverSettings

PAGE = (ROOT / "docs" / "operating.md").read_text()
INTERNAL = re.compile("crash_at|master|mode|operator_.*|control_.*|termination_log")
"""Set by the crash suite, or by the operator for the driver in a pod."""

COMMANDS = sorted(cli.commands)
OPTIONS = sorted(
    {option for command in cli.commands.values() for parameter in command.params for option in parameter.opts}
)


class TestThePageAboutOperating:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_the_page_names_every_command(self, command):
        """Users do not search for a command that only `--help` lists."""
        assert re.search(rf"`backfill {command}\b", PAGE)

    @pytest.mark.parametrize("option", [option for option in OPTIONS if option.startswith("--")])
    def test_the_page_names_every_option(self, option):
        """The page uses the long names; only `--file` and `--output` appear as -f and -o."""
        short = {"--file": "-f job.yaml", "--output": "-o json"}
        assert re.search(rf"{re.escape(short.get(option, option))}(?![\w-])", PAGE)

    @pytest.mark.parametrize("setting", [name for name in DriverSettings.model_fields if not INTERNAL.fullmatch(name)])
    def test_the_page_names_every_variable(self, setting):
        """Environment variables configure a driver process."""
        assert f"`{'JAVA_HOME' if setting == 'java_home' else 'BACKFILL_' + setting.upper()}`" in PAGE
