"""Every command that a page shows exists: `backfill` with its options, `make` with its targets, Python modules, files."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.repository import ROOT

from backfill_cli.__main__ import cli
from backfill_kubectl.__main__ import cli as plugin

PAGES = sorted([ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(?!from |import )([^`\n]+)`")
BACKFILL = re.compile(r"(?:^|(?<=[\s(=]))(kubectl )?backfill((?: +--?[\w-]+)*) +([a-z][\w-]*|COMMAND)((?: [^#|;&]*)?)")
MAKE = re.compile(r"(?:^|(?<=\s))make((?: +[a-z][a-z-]*(?![\w=]))+)")
MODULE = re.compile(r"python -m ((?:backfill\w*)(?:\.\w+)*)")
FILE = re.compile(r"(?<![\w/])(?:examples|charts|crds|build-tools|requirements)/[\w./-]+[\w]")
OTHER_LANGUAGES = {"python", "yaml", "sql", "json"}


def commands(text: str) -> Iterator[str]:
    """Yield each line of a page's shell blocks, without its comment, and each piece of inline code."""
    for language, block in FENCE.findall(text):
        if language not in OTHER_LANGUAGES:
            yield from (re.sub(r"(^|\s)#.*", "", line) for line in block.replace("\\\n", " ").splitlines())
    yield from INLINE.findall(FENCE.sub("", text))


def takes(command: click.Command, option: str) -> click.Parameter | None:
    """Return the parameter that an option sets; `None` if the command has no such option."""
    names = {name: parameter for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return names.get(option)


def faults_of_backfill(line: str) -> Iterator[str]:
    """Yield the parts of a line that `backfill`, or `kubectl backfill`, would reject: an unknown command, option or choice."""
    for kubectl, flags, name, arguments in BACKFILL.findall(line):
        program, group = f"{kubectl}backfill", plugin if kubectl else cli
        yield from (f"{program} {flag}" for flag in flags.split() if takes(group, flag) is None)
        if name not in {*group.commands, "COMMAND"}:
            yield f"{program} {name}"
            continue
        arguments_and_options = re.sub(r"[\[\]…,)]", " ", arguments).split()
        for option, value in itertools.pairwise([*arguments_and_options, ""]):
            command = group.commands.get(name)
            parameter = None if command is None else takes(command, option.partition("=")[0])
            if option.startswith("-") and option not in ("-", "-h", "--help") and parameter is None:
                yield f"{program} {name} {option}"
            elif parameter is not None and isinstance(parameter.type, click.Choice):
                yield from (f"{option} {choice}" for choice in value.split("|") if choice not in parameter.type.choices)


def faults_of_make(line: str) -> Iterator[str]:
    """Yield the targets that the Makefile lacks."""
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for names in MAKE.findall(line):
        yield from (f"make {name}" for name in names.split() if name not in targets)


def faults(line: str) -> list[str]:
    """Return every command and file of a line that does not exist."""
    modules = [f"python -m {name}" for name in MODULE.findall(line) if importlib.util.find_spec(name) is None]
    files = [path for path in FILE.findall(line) if not (ROOT / path).exists()]
    return [*faults_of_backfill(line), *faults_of_make(line), *modules, *files]


class TestThePages:
    """A reader types the commands of a page, and each of them exists."""

    @pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
    def test_page_shows_only_commands_that_exist(self, page: Path) -> None:
        """A flag that was renamed, or never written, sends the reader to `--help`."""
        assert [fault for line in commands(page.read_text()) for fault in faults(line)] == []

    @pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
    def test_page_shows_json_that_parses(self, page: Path) -> None:
        """A policy is copied unchanged."""
        for language, block in FENCE.findall(page.read_text()):
            if language == "json":
                json.loads(block)

    def test_pages_show_many_commands(self) -> None:
        """A search that finds no command proves nothing."""
        lines = [line for page in PAGES for line in commands(page.read_text())]

        shown = {name for line in lines for kubectl, _, name, _ in BACKFILL.findall(line) if not kubectl}
        made = {name for line in lines for names in MAKE.findall(line) for name in names.split()}
        assert set(cli.commands) <= shown
        assert {"demo", "test", "image", "chart"} <= made

    @pytest.mark.parametrize(
        ("line", "fault"),
        [
            ("backfill plan -f job.yaml --rows", "backfill plan --rows"),
            ("backfill halt", "backfill halt"),
            ("backfill --loud run -f job.yaml", "backfill --loud"),
            ("backfill run -f job.yaml -o xml", "-o xml"),
            ("make test-most ARGS=-x", "make test-most"),
            ("python -m backfill_spark.jvm.jar jars", "python -m backfill_spark.jvm.jar"),
            ("kubectl apply -f examples/order.yaml", "examples/order.yaml"),
        ],
    )
    def test_planted_mistake_is_named(self, line: str, fault: str) -> None:
        """Each kind of mistake fails the test above."""
        assert faults(line) == [fault]

    @pytest.mark.parametrize(
        "line",
        [
            "backfill status --watch | head",
            "backfill throttle 200k [--for 30m]",
            "make demo STRATEGY=Replica",
            "make image",
        ],
    )
    def test_right_command_is_accepted(self, line: str) -> None:
        """Brackets, pipes and variables are no mistakes."""
        assert faults(line) == []
