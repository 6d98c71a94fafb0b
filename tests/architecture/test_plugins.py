"""A strategy, a source or a sink is a folder with its documentation, is discovered, and has a test suite."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from support.crd.crd_specs import SCHEMA
from support.repository import CORE, ROOT, SOURCE_ROOTS, SPARK, name, plugins

from backfill_api.model import member_of
from backfill_api.plugins import discover
from backfill_api.spec.params import SourceAbility, TargetAbility
from backfill_api.spec.sources import Source
from backfill_api.spec.strategies import Strategy
from backfill_api.spec.targets import Target
from backfill_core import strategies
from backfill_core.errors import InvalidSpecError
from backfill_core.plugins import choose
from backfill_core.protocol.work import ApplyChanges, ProveKey, ReadSplit, Verify
from backfill_spark import sinks, sources
from backfill_spark.ports.abilities import PROTOCOLS, ability, broken_promises, check_promises
from backfill_spark.ports.sink import Sink as SinkPort
from backfill_spark.ports.sink import SinkPlugin, SupportsMerge
from backfill_spark.ports.source import Source as SourcePort
from backfill_spark.runners import runner

KINDS = {CORE / "strategies": strategies, SPARK / "sources": sources, SPARK / "sinks": sinks}
LAWS = "tests/simulation/test_laws.py"
TESTS = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.parent.name != "architecture"}
EXPLAINED = re.compile("when to use it.*promise.*cost", flags=re.DOTALL)


def unexplained(folders):
    """Return the folders whose README does not explain when to use them, their promise and their cost."""
    readmes = [(folder, folder / "README.md") for folder in folders]
    return [folder for folder, file in readmes if not file.exists() or not EXPLAINED.search(file.read_text().lower())]


def unreached(folders):
    """Return the folders whose module no test names; such a folder is untested, whatever the coverage shows."""
    modules = [(folder, ".".join(folder.relative_to(ROOT / "spark_app").parts)) for folder in folders]
    return [folder for folder, module in modules if not any(module in text for text in TESTS.values())]


class TestAPluginIsAFolder:
    """A new plug-in needs no other manual edit."""

    def test_each_plugin_has_a_readme(self):
        """The README explains when to use it, its promise and its cost."""
        assert unexplained(plugins()) == []

    def test_each_plugin_has_a_suite(self):
        """Each has its own suite; strategies also have the laws, which run for every discovered strategy."""
        assert unreached(plugins()) == []

    @pytest.mark.parametrize("kind", [*KINDS], ids=name)
    def test_each_plugin_is_discovered(self, kind):
        """A folder without an entry ends the discovery with an error; one without `__init__.py` would be skipped."""
        folders = [folder for folder in plugins() if folder.parent == kind]

        assert [name(folder) for folder in folders if not (folder / "__init__.py").exists()] == []
        assert len(KINDS[kind].discover()) == len(folders) > 0

    def test_a_strategy_has_params(self):
        """The contract defines the user's settings under the same name; one file of the folder defines how the strategy
        uses them."""
        folders = [folder for folder in plugins() if folder.parent == CORE / "strategies"]

        assert [name(folder) for folder in folders if not (folder / "params.py").exists()] == []
        declared = {name: variant.params for name, variant in Strategy.VARIANTS.items()}
        assert {strategy.name: strategy.params for strategy in strategies.discover().values()} == declared

    def test_a_plugin_that_is_not_built_is_not_offered(self):
        """The CRD, the field reference and `validate` describe this release, not a later one."""
        offered = SCHEMA["properties"]

        for kind, member, union in (
            ("strategy", strategies, Strategy),
            ("source", sources, Source),
            ("target", sinks, Target),
        ):
            enum = offered[kind]["properties"]["type"]["enum"]
            built = set(member.discover())
            assert set(enum) == built == set(union.VARIANTS)
            assert set(offered[kind]["properties"]) == {"type", *map(member_of, built)}

    @pytest.mark.parametrize("folder", [kind / "planted" for kind in KINDS], ids=name)
    def test_a_planted_plugin_without_readme_and_suite_is_noticed(self, folder):
        """The planted folder has neither."""
        assert unexplained([folder]) == unreached([folder]) == [folder]


class TestNobodyNamesAPlugin:
    """The driver uses the registry; a list of names would need manual edits, or become outdated."""

    @pytest.mark.parametrize(
        "file", ["attempt.py", "plan.py", "action_executor.py", "event_loop.py", "offline_verify.py"]
    )
    def test_the_driver_imports_no_plugin_by_name(self, file):
        """The rule includes imports for type checkers: ports.py defines the methods of a source and a sink."""
        text = (SPARK / "driver" / file).read_text()

        loaded = re.findall(
            r"^ *from backfill_(?:core\.strategies|spark\.s(?:ources|inks))\.\S+", text, flags=re.MULTILINE
        )

        assert loaded == []

    def test_a_missing_plugin_is_refused_with_the_installed_ones(self):
        """A document for a later release fails with this message, and not with `KeyError`."""
        with pytest.raises(InvalidSpecError, match=r"spec\.strategy\.type: 'Arrangement' is not installed .*Snapshot"):
            choose({"Snapshot": strategies.discover()["Snapshot"]}, "Arrangement", "spec.strategy.type")
        with pytest.raises(InvalidSpecError, match=r"spec\.source\.type: 'Kafka' is not installed .*Delta"):
            choose({"Delta": sources.discover()["Delta"]}, "Kafka", "spec.source.type")

    def test_discovery_loads_no_spark(self):
        """The command line lists the plug-ins before it starts anything."""
        code = (
            "import sys; from backfill_spark import sinks, sources; sources.discover(), sinks.discover();"
            "print(any(module.split('.')[0] == 'pyspark' for module in sys.modules))"
        )
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


class TestAPromiseIsKept:
    """The code has every method that a `VARIANT` promises to strategies; otherwise a job fails in its middle."""

    @pytest.mark.parametrize(("registry", "union"), [(sources, Source), (sinks, Target)], ids=["sources", "targets"])
    def test_each_plugin_has_the_methods_of_its_abilities(self, registry, union):
        """The check also covers the methods that every source and every sink has."""
        core = {sources: SourcePort, sinks: SinkPort}[registry]
        for kind, plugin in registry.discover().items():
            code = plugin.code()
            assert broken_promises(code, union.VARIANTS[kind].abilities) == []
            assert [method for method in vars(core) if not method.startswith("_") and not hasattr(code, method)] == []

    def test_every_ability_has_methods(self):
        """An ability without a protocol could be promised without a check."""
        assert {*SourceAbility, *TargetAbility} <= set(PROTOCOLS)

    def test_a_missing_method_is_named(self):
        """The error names the methods when the job is opened."""

        class ListWithoutMerge:
            """A sink that promises merge without the method."""

        with pytest.raises(
            InvalidSpecError, match=r"spec\.target\.type: ListWithoutMerge promises SupportsMerge \(merge\)"
        ):
            check_promises(ListWithoutMerge(), [TargetAbility.MERGE], field="spec.target.type")
        with pytest.raises(InvalidSpecError, match="ListWithoutMerge does not implement SupportsMerge"):
            ability(ListWithoutMerge(), SupportsMerge)


class TestWorkIsDone:
    """Discovered code does the work; no executor lists the kinds."""

    def test_each_kind_of_work_that_strategies_share_has_a_runner(self):
        """Work without a runner ends a job in its middle."""
        assert {ReadSplit, ApplyChanges, Verify, ProveKey} <= {*runner.discover()}


PLANTED_STRATEGY = '''"""Planted."""
from dataclasses import replace
from backfill_core.strategies.snapshot import STRATEGY as SNAPSHOT

STRATEGY = replace(SNAPSHOT, name="Planted")
'''


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The environment of a copy of the packages with one more strategy."""
    house = tmp_path_factory.mktemp("house")
    for root in SOURCE_ROOTS:
        shutil.copytree(ROOT / root, house / root, ignore=shutil.ignore_patterns("__pycache__"))
    folder = house / "spark_app" / "backfill_core" / "strategies" / "planted"
    folder.mkdir()
    (folder / "__init__.py").write_text(PLANTED_STRATEGY)
    return dict(os.environ, PYTHONPATH=os.pathsep.join(str(house / root) for root in SOURCE_ROOTS))


class TestAPlantedFolderIsFound:
    """The tests run in a copy of the packages."""

    def test_the_driver_finds_a_planted_strategy(self, planted):
        """The folder is enough."""
        code = "from backfill_core import strategies; print(*sorted(strategies.discover()))"

        done = subprocess.run([sys.executable, "-c", code], env=planted, capture_output=True, text=True)

        assert "Planted" in done.stdout.split()

    def test_the_laws_find_a_planted_strategy(self, planted):
        """A new strategy is always tested against the laws."""
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", LAWS]

        done = subprocess.run(command, cwd=ROOT, env=planted, capture_output=True, text=True)

        assert "TestInAnyWorld::test_the_laws_hold_in_any_world[0-Planted]" in done.stdout
        assert "TestACrashAtAnyStep::test_repeated_crashes_lose_and_duplicate_no_row[0-Planted]" in done.stdout


class TestADoor:
    """The entry of a folder makes it a plug-in; an invalid entry is reported at once, not when a job starts."""

    def plant(self, folder, monkeypatch, **doors):
        package = folder / "planted_kind"
        for name_of_folder, text in {"": "", **doors}.items():
            (package / name_of_folder).mkdir(parents=True, exist_ok=True)
            (package / name_of_folder / "__init__.py").write_text(text)
        monkeypatch.syspath_prepend(str(folder))
        for module in [loaded for loaded in sys.modules if loaded.split(".")[0] == "planted_kind"]:
            monkeypatch.delitem(sys.modules, module)
        return lambda: discover(
            "planted_kind", [str(package)], group="backfill.none", attribute="SINK", kind=SinkPlugin
        )

    def door(self, word):
        return f"from backfill_spark.sinks import SinkPlugin\nSINK = SinkPlugin({word!r}, open=print, code=print)\n"

    def test_a_plugin_is_found_by_its_entry(self, tmp_path, monkeypatch):
        """The entry has the name, not the folder; files next to the folders are ignored."""
        find = self.plant(tmp_path, monkeypatch, one=self.door("One"), other=self.door("Other"))

        assert sorted(find()) == ["One", "Other"]

    def test_a_folder_without_an_entry_is_an_error(self, tmp_path, monkeypatch):
        """A user would search for the cause of a silently skipped folder in the wrong place."""
        with pytest.raises(TypeError, match=r"planted_kind\.one has no SINK"):
            self.plant(tmp_path, monkeypatch, one="")()

    def test_a_plugin_may_declare_that_it_is_not_offered_yet(self, tmp_path, monkeypatch):
        """A plug-in in development can be tested before a spec can name it."""
        find = self.plant(tmp_path, monkeypatch, one=self.door("One"), other='NOT_OFFERED = "it has no schema yet"')

        assert sorted(find()) == ["One"]

    def test_an_entry_of_another_kind_is_an_error(self, tmp_path, monkeypatch):
        """The case is a source in the folder of sinks."""
        with pytest.raises(TypeError, match="has no SINK of type SinkPlugin"):
            self.plant(tmp_path, monkeypatch, one="SINK = 1")()

    def test_two_plugins_with_one_name_are_an_error(self, tmp_path, monkeypatch):
        """A spec could not choose between them."""
        with pytest.raises(TypeError, match="there is a 'One' already"):
            self.plant(tmp_path, monkeypatch, one=self.door("One"), other=self.door("One"))()
