"""No code outside a plug-in's own files names it: a list of names would be edited by hand, or forgotten."""

import ast
import re

import pytest
from pydantic.alias_generators import to_camel
from support.repository import ROOT, docstrings, name, packaged

from backfill_api.model import member_of
from backfill_api.spec.sources import Source
from backfill_api.spec.strategies import Strategy
from backfill_api.spec.targets import Target

NAMES = {name for union in (Strategy, Source, Target) for name in union.VARIANTS}
MEMBERS = {member_of(name) for name in NAMES}
FIELD = re.compile(rf"\b(?:source|target|strategy)\.(?:{'|'.join(sorted(MEMBERS))})\b")
PACKAGE = re.compile(r"\b(?:strategies|sources|sinks|targets)\.(\w+)")

OTHER_MEANINGS = {
    "spark_app/backfill_cli/__main__.py": "offers the strategies that the demo of the repository shows",
    "spark_app/backfill_cli/commands/options.py": "names the Python package `delta`",
    "spark_app/backfill/words.py": "translates the phase `Snapshot`, and says what a pause holds",
    "spark_app/backfill_spark/driver/class_archive_training.py": "writes the document of the job that trains the archive",
}
"""Files that use such a word for something else, or as a user does."""


def is_own(path):
    """Is a file the plug-in's own, or of the storage that is named for it?"""
    return bool(members_of(part.removesuffix(".py") for part in path.parts))


def members_of(modules):
    """Return the members that modules are named for: `source_splits` is that of `sourceSplits`."""
    return MEMBERS & {to_camel(one) for one in modules}


def mentions(text):
    """Return where a module names a plug-in: by its type, its member in a spec, or its package."""
    tree = ast.parse(text)
    free = {id(one) for one in docstrings(tree)}
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(word)) if id(node) not in free:
                hit = word in NAMES | MEMBERS or FIELD.search(word)
            case ast.Attribute():
                hit = FIELD.search(ast.unparse(node))
            case ast.ImportFrom(names=names):
                hit = any(members_of(PACKAGE.findall(f"{node.module}.{one.name}")) for one in names)
            case ast.Import(names=names):
                hit = any(members_of(PACKAGE.findall(one.name)) for one in names)
            case _:
                continue
        if hit:
            found.append(f"line {node.lineno}: {ast.unparse(node)[:80]}")
    return found


class TestNoCodeNamesAPlugin:
    """The contract, the core, the driver and the operator work with whatever is discovered."""

    @pytest.mark.parametrize("path", [path for path in packaged() if not is_own(path)], ids=name)
    def test_outside_its_own_files(self, path):
        """An edit that a new plug-in needs elsewhere is an edit that its author will not know of."""
        if name(path) not in OTHER_MEANINGS:
            assert mentions(path.read_text()) == []

    def test_every_exception_is_needed(self):
        """An exception that is left behind would hide the next list of names."""
        assert [one for one in OTHER_MEANINGS if not mentions((ROOT / one).read_text())] == []

    @pytest.mark.parametrize(
        "planted",
        [
            'SOURCES = ("Delta",)',
            'STRATEGIES = {"Snapshot": 1}',
            'document.get("delta")',
            "spec.source.delta.key",
            "self.backfill.spec.strategy.snapshot",
            'hint = "Set spec.target.delta.key."',
            "from backfill_api.spec.strategies.snapshot import SnapshotParams",
            "from backfill_spark.sources import delta",
            "import backfill_spark.sinks.delta.sink",
            "from backfill_core.strategies.rearranged_chain.stored import decode",
        ],
    )
    def test_a_planted_name_is_seen(self, planted):
        """Each way in which code could name one."""
        assert mentions(planted) != []

    @pytest.mark.parametrize(
        "free", ['"""Delta and Snapshot, in prose."""', 'hint = "The Delta table is gone."', "spec.source.params.key"]
    )
    def test_prose_is_free(self, free):
        """Messages may say what a table is; only names that a program uses are held back."""
        assert mentions(free) == []
