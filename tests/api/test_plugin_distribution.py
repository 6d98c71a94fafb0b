"""A strategy, a source and a target of another distribution work without one edited line of this project.

`tests/support/plugin_counter` is such a distribution. The tests start new processes that have it on their path, because a process
discovers its plug-ins once.
"""

import json
import os
import subprocess
import sys

import pytest
from support.repository import ROOT, SOURCE_ROOTS

from backfill_api.crd.schema import open_api_schema
from backfill_api.model import member_of
from backfill_api.spec.sources import Source
from backfill_api.spec.strategies import Strategy

DISTRIBUTION = ROOT / "tests" / "support" / "plugin_counter"

PROGRAM = """
import json, sys
from backfill_api.crd import fields, schema
from backfill_api.load import SpecError, load_backfill
from backfill_core import strategies
from backfill_spark import sinks, sources

def document(source, target, strategy, **more):
    spec = {"source": source, "target": target, "strategy": strategy, **more}
    return {"apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "numbers"}, "spec": spec}

def refusal(*parts, **more):
    try:
        load_backfill(document(*parts, **more))
    except SpecError as error:
        return [str(error) for error in error.errors]

COUNTER, LIST = {"type": "Counter", "counter": {"partitions": 3}}, {"type": "List"}
TABLE = {"type": "Delta", "delta": {"path": "/a", "key": ["id"]}}
loaded = load_backfill(document(COUNTER, LIST, {"type": "Counter"}))
paced = load_backfill(document(COUNTER, LIST, {"type": "Counter", "counter": {"rangeMax": 5}}))
other = load_backfill(document({"type": "Counter", "counter": {"partitions": 4}}, LIST, {"type": "Counter"}))
print(json.dumps({
    "schema": schema.open_api_schema()["properties"]["spec"],
    "fields": fields.render(),
    "found": [sorted(package.discover()) for package in (strategies, sources, sinks)],
    "key": loaded.spec.key,
    "params": [type(part.params).__name__ for part in (loaded.spec.source, loaded.spec.target, loaded.spec.strategy)],
    "same hash": loaded.spec_hash == paced.spec_hash,
    "other hash": loaded.spec_hash != other.spec_hash,
    "hashed": sorted(loaded.spec_fields),
    "refused": {
        "a source without versions": refusal(COUNTER, TABLE, {"type": "Snapshot"}),
        "a target without segments": refusal(TABLE, LIST, {"type": "Snapshot"}),
        "a source without offsets": refusal(TABLE, LIST, {"type": "Counter"}),
        "no member": refusal({"type": "Counter"}, LIST, {"type": "Counter"}),
        "another member": refusal(COUNTER, {**LIST, "delta": {"path": "/a"}}, {"type": "Counter"}),
        "a mode that is not offered": refusal(COUNTER, {"type": "List", "list": {"writeMode": "Upsert"}}, {"type": "Counter"}),
        "an unknown type": refusal({"type": "Files"}, LIST, {"type": "Counter"}),
    },
    "spark": any(name.split(".")[0] == "pyspark" for name in sys.modules),
}))
"""


@pytest.fixture(scope="module")
def answer():
    """Return the output of a process that has the distribution on its path."""
    path = [*(str(ROOT / root) for root in SOURCE_ROOTS), str(DISTRIBUTION)]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path))
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class TestADistributionOfPlugins:
    """Installing it is enough."""

    def test_plugins_are_found(self, answer):
        """The API finds their fields, and the core and Spark find their code."""
        assert answer["found"] == [
            sorted(["Counter", *Strategy.VARIANTS]),
            sorted(["Counter", *Source.VARIANTS]),
            ["Delta", "List"],
        ]

    def test_plugins_are_found_without_spark(self, answer):
        """The command line lists the plug-ins before it starts Spark."""
        assert not answer["spark"]

    @pytest.mark.parametrize(
        ("end", "types", "members"),
        [
            ("strategy", sorted(["Counter", *Strategy.VARIANTS]), ["counter", *map(member_of, Strategy.VARIANTS)]),
            ("source", sorted(["Counter", *Source.VARIANTS]), ["counter", *map(member_of, Source.VARIANTS)]),
            ("target", ["Delta", "List"], ["delta", "list"]),
        ],
    )
    def test_plugins_are_in_the_schema(self, answer, end, types, members):
        """A cluster drops fields that are not in its schema."""
        node = answer["schema"]["properties"][end]

        assert node["properties"]["type"]["enum"] == types
        assert sorted(node["properties"]) == sorted(["type", *members])

    def test_plugins_are_in_the_reference_of_fields(self, answer):
        """A user of the plug-in finds its fields there."""
        for field in ("spec.strategy.counter.rangeMax", "spec.source.counter.partitions", "spec.target.list.writeMode"):
            assert f"| `{field}` |" in answer["fields"]

    def test_plugins_do_not_change_the_rest_of_the_schema(self, answer):
        """A new type must not change the meaning of other fields."""
        original = open_api_schema()["properties"]["spec"]["properties"]

        for end in ("strategy", "source", "target"):
            extended = answer["schema"]["properties"][end]["properties"]
            assert {
                name: node for name, node in original[end]["properties"].items() if name != "type"
            }.items() <= extended.items()

    def test_plugins_have_their_parameters_and_defaults(self, answer):
        """A member whose defaults are valid may be omitted."""
        assert answer["params"] == ["CounterSource", "ListTarget", "CounterParams"]
        assert answer["key"] == ["number"]

    def test_plugins_declare_the_fields_that_may_change(self, answer):
        """The job's identity contains the source of the plug-in, but not its pace."""
        assert answer["same hash"]
        assert answer["other hash"]
        assert {"spec.source.counter.partitions", "spec.target.type"} <= set(answer["hashed"])
        rules = [rule["message"] for rule in answer["schema"]["properties"]["strategy"]["x-kubernetes-validations"]]
        (immutable,) = [message for message in rules if message.startswith("strategy is immutable, except ")]
        assert "rangeMax" in immutable


class TestACombinationThatCannotWork:
    """Such a spec is rejected when it is read, not when its driver runs."""

    @pytest.mark.parametrize(
        ("given", "path", "reason", "hint"),
        [
            ("a source without versions", "spec.source.type", "needs SupportsChanges and SupportsPin of the source", "use source.type: Delta or use strategy.type: Counter"),
            ("a target without segments", "spec.target.type", "needs SupportsSegments of the target", "use target.type: Delta"),
            ("a source without offsets", "spec.source.type", "needs SupportsOffsets of the source", "use source.type: Counter"),
            ("no member", "spec.source.counter", "is required", "add counter"),
            ("another member", "spec.target.delta", "must be left out, because type is List", "set type: Delta"),
            ("a mode that is not offered", "spec.target.list.writeMode", "must be Append", "Append"),
            ("an unknown type", "spec.source.type", "must be Counter or Delta", "use one of Counter, Delta"),
        ],
    )  # fmt: skip
    def test_a_combination_is_refused_by_the_models(self, answer, given, path, reason, hint):
        """The message contains the field, the reason, and the alternatives."""
        (message,) = answer["refused"][given]

        assert message.startswith(f"{path}: ")
        assert reason in message
        assert hint in message

    def test_a_combination_is_refused_by_the_cluster(self, answer):
        """`kubectl apply` applies the same rules."""
        rules = [rule["rule"] for rule in answer["schema"]["x-kubernetes-validations"]]

        assert "self.strategy.type != 'Snapshot' || self.source.type in ['Delta']" in rules
        assert "self.strategy.type != 'Snapshot' || self.target.type in ['Delta']" in rules
        assert "self.strategy.type != 'Counter' || self.source.type in ['Counter', 'Kafka']" in rules
