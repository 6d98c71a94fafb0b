"""Only a plug-in's own files name it: a list of names elsewhere would need manual edits, or become outdated."""

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
    "spark_app/backfill/draft.py": "reads the locations that a user types: a path, a name in a catalog, a URL of a topic",
    "spark_app/backfill_console/formatting.py": "translates the phase `Snapshot`, and says what a pause holds",
    "spark_app/backfill_core/phases/copied_state.py": "names the phase `Snapshot`, which more than one strategy stores",
    "spark_app/backfill_spark/flips/hive_table.py": "compares the format of a table, as the catalog stores it",
    "spark_app/backfill_spark/flips/view.py": "writes Spark's name of a table that has only a folder",
    "spark_app/backfill_spark/driver/class_archive_training.py": "writes the document of the job that trains the archive",
}
"""Files that use such a word with another meaning, or as a user does."""


def is_own(path):
    """Return whether a file belongs to a plug-in or to the storage that is named for it."""
    return bool(members_of(part.removesuffix(".py") for part in path.parts))


def members_of(modules):
    """Return the members that modules are named for: `source_splits` belongs to `sourceSplits`."""
    return MEMBERS & {to_camel(module) for module in modules}


def mentions(text):
    """Return the lines in which a module names a plug-in: by its type, its member in a spec, or its package."""
    tree = ast.parse(text)
    free = {id(docstring) for docstring in docstrings(tree)}
    mentioned = []
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(word)) if id(node) not in free:
                hit = word in NAMES | MEMBERS or FIELD.search(word)
            case ast.Attribute(attr=member) if member in MEMBERS:
                hit = FIELD.search(ast.unparse(node))
            case ast.ImportFrom(names=names):
                hit = any(members_of(PACKAGE.findall(f"{node.module}.{alias.name}")) for alias in names)
            case ast.Import(names=names):
                hit = any(members_of(PACKAGE.findall(alias.name)) for alias in names)
            case _:
                continue
        if hit:
            mentioned.append(f"line {node.lineno}: {ast.unparse(node)[:80]}")
    return mentioned


class TestNoCodeNamesAPlugin:
    """The contract, the core, the driver and the operator work with any discovered plug-in."""

    @pytest.mark.parametrize("path", [path for path in packaged() if not is_own(path)], ids=name)
    def test_no_file_outside_a_plugin_names_it(self, path):
        """The author of a new plug-in will not know of edits that it needs elsewhere."""
        if name(path) not in OTHER_MEANINGS:
            assert mentions(path.read_text()) == []

    def test_every_exception_is_still_needed(self):
        """A stale exception would hide the next list of names."""
        assert [exception for exception in OTHER_MEANINGS if not mentions((ROOT / exception).read_text())] == []

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
    def test_a_planted_name_is_noticed(self, planted):
        """The cases are the ways in which code could name a plug-in."""
        assert mentions(planted) != []

    @pytest.mark.parametrize(
        "free", ['"""Delta and Snapshot, in prose."""', 'hint = "The Delta table is gone."', "spec.source.params.key"]
    )
    def test_prose_may_name_a_plugin(self, free):
        """Messages may describe a table; only names that a program uses are forbidden."""
        assert mentions(free) == []
