"""A strategy, a source or a sink is a folder that explains itself, is found, and is reached by a suite."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from support.operators.crd_rows import SCHEMA
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
from backfill_spark.ports.sink import SupportsMerge
from backfill_spark.ports.source import Source as SourcePort
from backfill_spark.runners import runner

KINDS = {CORE / "strategies": strategies, SPARK / "sources": sources, SPARK / "sinks": sinks}
LAWS = "tests/simulation/test_laws.py"
TESTS = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.parent.name != "architecture"}
EXPLAINED = re.compile("when to use it.*promise.*cost", flags=re.DOTALL)


def unexplained(folders):
    """Return those whose README does not say when to use them, their promise and their cost."""
    readmes = [(folder, folder / "README.md") for folder in folders]
    return [one for one, file in readmes if not file.exists() or not EXPLAINED.search(file.read_text().lower())]


def unreached(folders):
    """Return those whose module no test names; one that none names is untested, whatever the coverage says."""
    modules = [(folder, ".".join(folder.relative_to(ROOT / "spark_app").parts)) for folder in folders]
    return [one for one, module in modules if not any(module in text for text in TESTS.values())]


class TestAPluginIsAFolder:
    """Nothing else is edited by hand when one is added."""

    def test_each_explains_itself(self):
        """When to use it, its promise, its cost."""
        assert unexplained(plugins()) == []

    def test_each_is_reached_by_a_suite(self):
        """By its own; and strategies by the laws, which run on whatever is discovered."""
        assert unreached(plugins()) == []

    @pytest.mark.parametrize("kind", [*KINDS], ids=name)
    def test_each_is_discovered(self, kind):
        """A folder without a door ends the discovery with an error; one without `__init__.py` would be passed over."""
        folders = [folder for folder in plugins() if folder.parent == kind]

        assert [name(folder) for folder in folders if not (folder / "__init__.py").exists()] == []
        assert len(KINDS[kind].discover()) == len(folders) > 0

    def test_a_strategy_has_params(self):
        """What a user may set is in the contract, under the same name; how it runs is in one file of its folder."""
        folders = [folder for folder in plugins() if folder.parent == CORE / "strategies"]

        assert [name(folder) for folder in folders if not (folder / "params.py").exists()] == []
        declared = {name: one.params for name, one in Strategy.VARIANTS.items()}
        assert {one.name: one.params for one in strategies.discover().values()} == declared

    def test_what_is_not_built_is_not_offered(self):
        """The CRD, the field reference and `validate` say what this release does, not what one to come may do."""
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
    def test_a_planted_one_is_noticed(self, folder):
        """Without a README, and without a suite."""
        assert unexplained([folder]) == unreached([folder]) == [folder]


class TestNobodyNamesAPlugin:
    """The driver asks the registry; a list of names would be edited by hand, or forgotten."""

    @pytest.mark.parametrize(
        "file", ["attempt.py", "plan.py", "action_executor.py", "event_loop.py", "offline_verify.py"]
    )
    def test_the_hands_load_none_by_name(self, file):
        """Not even for the checker of types: what is asked of a source and a sink is in ports.py."""
        text = (SPARK / "driver" / file).read_text()

        loaded = re.findall(
            r"^ *from backfill_(?:core\.strategies|spark\.s(?:ources|inks))\.\S+", text, flags=re.MULTILINE
        )

        assert loaded == []

    def test_what_is_not_built_is_refused_with_what_there_is(self):
        """A document that was read by a later release says so, and not `KeyError`."""
        with pytest.raises(InvalidSpecError, match=r"spec\.strategy\.type: 'Arrangement' is not installed .*Snapshot"):
            choose({"Snapshot": strategies.discover()["Snapshot"]}, "Arrangement", "spec.strategy.type")
        with pytest.raises(InvalidSpecError, match=r"spec\.source\.type: 'Kafka' is not installed .*Delta"):
            choose({"Delta": sources.discover()["Delta"]}, "Kafka", "spec.source.type")

    def test_finding_them_loads_no_spark(self):
        """The command line asks what there is before it starts anything."""
        code = (
            "import sys; from backfill_spark import sinks, sources; sources.discover(), sinks.discover();"
            "print(any(one.split('.')[0] == 'pyspark' for one in sys.modules))"
        )
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


class TestAPromiseIsKept:
    """What a `VARIANT` promises to strategies, the code has: else a job fails in its middle."""

    @pytest.mark.parametrize(("found", "union"), [(sources, Source), (sinks, Target)], ids=["sources", "targets"])
    def test_by_all_that_is_discovered(self, found, union):
        """Each method of each ability is there; and all that every source, every sink has."""
        core = {sources: SourcePort, sinks: SinkPort}[found]
        for kind, plugin in found.discover().items():
            code = plugin.code()
            assert broken_promises(code, union.VARIANTS[kind].abilities) == []
            assert [one for one in vars(core) if not one.startswith("_") and not hasattr(code, one)] == []

    def test_every_ability_has_methods(self):
        """One that no protocol stands for could be promised, and nothing would be held to it."""
        assert {*SourceAbility, *TargetAbility} <= set(PROTOCOLS)

    def test_a_missing_one_is_named(self):
        """With its methods, when the job is opened."""

        class ListWithoutMerge:
            """Promises it all the same."""

        with pytest.raises(
            InvalidSpecError, match=r"spec\.target\.type: ListWithoutMerge promises SupportsMerge \(merge\)"
        ):
            check_promises(ListWithoutMerge(), [TargetAbility.MERGE], field="spec.target.type")
        with pytest.raises(InvalidSpecError, match="ListWithoutMerge does not implement SupportsMerge"):
            ability(ListWithoutMerge(), SupportsMerge)


class TestWorkIsDone:
    """By code that is discovered; no executor lists the kinds."""

    def test_of_the_kinds_that_strategies_share(self):
        """Work that nothing does ends a job in its middle."""
        assert {ReadSplit, ApplyChanges, Verify, ProveKey} <= {*runner.discover()}


PLANTED_STRATEGY = '''"""Planted."""
from dataclasses import replace
from backfill_core.strategies.snapshot import STRATEGY as SNAPSHOT

STRATEGY = replace(SNAPSHOT, name="Planted")
'''


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The environment of a copy of the house with one more strategy."""
    house = tmp_path_factory.mktemp("house")
    for root in SOURCE_ROOTS:
        shutil.copytree(ROOT / root, house / root, ignore=shutil.ignore_patterns("__pycache__"))
    folder = house / "spark_app" / "backfill_core" / "strategies" / "planted"
    folder.mkdir()
    (folder / "__init__.py").write_text(PLANTED_STRATEGY)
    return dict(os.environ, PYTHONPATH=os.pathsep.join(str(house / root) for root in SOURCE_ROOTS))


class TestAPlantedFolderIsFound:
    """In a copy of the house."""

    def test_by_the_driver(self, planted):
        """Because it is there."""
        code = "from backfill_core import strategies; print(*sorted(strategies.discover()))"

        done = subprocess.run([sys.executable, "-c", code], env=planted, capture_output=True, text=True)

        assert "Planted" in done.stdout.split()

    def test_by_the_laws(self, planted):
        """A strategy cannot be added without being held to them."""
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", LAWS]

        done = subprocess.run(command, cwd=ROOT, env=planted, capture_output=True, text=True)

        assert "TestInAnyWorld::test_holds_in_any_world[0-Planted]" in done.stdout
        assert "TestACrashAtAnyStep::test_again_and_again[0-Planted]" in done.stdout


class TestADoor:
    """What a folder must have to be a plug-in; anything else is said at once, not when a job starts."""

    def plant(self, folder, monkeypatch, **doors):
        package = folder / "planted_kind"
        for one, text in {"": "", **doors}.items():
            (package / one).mkdir(parents=True, exist_ok=True)
            (package / one / "__init__.py").write_text(text)
        monkeypatch.syspath_prepend(str(folder))
        for module in [one for one in sys.modules if one.split(".")[0] == "planted_kind"]:
            monkeypatch.delitem(sys.modules, module)
        return lambda: discover(
            "planted_kind", [str(package)], group="backfill.none", attribute="SINK", kind=sinks.SinkPlugin
        )

    def door(self, word):
        return f"from backfill_spark.sinks import SinkPlugin\nSINK = SinkPlugin({word!r}, open=print, code=print)\n"

    def test_is_found(self, tmp_path, monkeypatch):
        """By the name in the door, not by that of the folder; files beside the folders are none."""
        find = self.plant(tmp_path, monkeypatch, one=self.door("One"), other=self.door("Other"))

        assert sorted(find()) == ["One", "Other"]

    def test_must_be_there(self, tmp_path, monkeypatch):
        """A folder that is silently left out is looked for in the wrong place."""
        with pytest.raises(TypeError, match=r"planted_kind\.one has no SINK"):
            self.plant(tmp_path, monkeypatch, one="")()

    def test_may_say_that_it_is_not_offered_yet(self, tmp_path, monkeypatch):
        """What is being built can be tested before a spec can name it."""
        find = self.plant(tmp_path, monkeypatch, one=self.door("One"), other='NOT_OFFERED = "it has no schema yet"')

        assert sorted(find()) == ["One"]

    def test_must_be_of_its_kind(self, tmp_path, monkeypatch):
        """A source in the folder of sinks."""
        with pytest.raises(TypeError, match="has no SINK of type SinkPlugin"):
            self.plant(tmp_path, monkeypatch, one="SINK = 1")()

    def test_must_have_a_name_of_its_own(self, tmp_path, monkeypatch):
        """Of two with one name a spec cannot choose."""
        with pytest.raises(TypeError, match="there is a 'One' already"):
            self.plant(tmp_path, monkeypatch, one=self.door("One"), other=self.door("One"))()
