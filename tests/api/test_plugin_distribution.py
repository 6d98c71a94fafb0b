"""A strategy, a source and a target of another distribution work without one edited line of this project.

`tests/support/plugin_counter` is such a distribution. The tests ask new processes that have it on their path, because a process
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

ASK = """
import json, sys
from backfill_api.crd import fields, schema
from backfill_api.load import SpecError, load_backfill
from backfill_core import strategies
from backfill_spark import sinks, sources

def document(source, target, strategy, **more):
    spec = {"source": source, "target": target, "strategy": strategy, **more}
    return {"apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "numbers"}, "spec": spec}

def refusal(*given, **more):
    try:
        load_backfill(document(*given, **more))
    except SpecError as error:
        return [str(one) for one in error.errors]

COUNTER, LIST = {"type": "Counter", "counter": {"partitions": 3}}, {"type": "List"}
TABLE = {"type": "Delta", "delta": {"path": "/a", "key": ["id"]}}
loaded = load_backfill(document(COUNTER, LIST, {"type": "Counter"}))
paced = load_backfill(document(COUNTER, LIST, {"type": "Counter", "counter": {"rangeMax": 5}}))
other = load_backfill(document({"type": "Counter", "counter": {"partitions": 4}}, LIST, {"type": "Counter"}))
print(json.dumps({
    "schema": schema.open_api_schema()["properties"]["spec"],
    "fields": fields.render(),
    "found": [sorted(one.discover()) for one in (strategies, sources, sinks)],
    "key": loaded.spec.key,
    "params": [type(one.params).__name__ for one in (loaded.spec.source, loaded.spec.target, loaded.spec.strategy)],
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
    """What a process says that has the distribution on its path."""
    path = [*(str(ROOT / root) for root in SOURCE_ROOTS), str(DISTRIBUTION)]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path))
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class TestADistributionOfPlugins:
    """Installing it is enough."""

    def test_is_found(self, answer):
        """By both halves: what a spec may say, and what runs it."""
        assert answer["found"] == [
            sorted(["Counter", *Strategy.VARIANTS]),
            sorted(["Counter", *Source.VARIANTS]),
            ["Delta", "List"],
        ]

    def test_is_found_without_spark(self, answer):
        """The command line asks what there is before it starts anything."""
        assert not answer["spark"]

    @pytest.mark.parametrize(
        ("end", "types", "members"),
        [
            ("strategy", sorted(["Counter", *Strategy.VARIANTS]), ["counter", *map(member_of, Strategy.VARIANTS)]),
            ("source", sorted(["Counter", *Source.VARIANTS]), ["counter", *map(member_of, Source.VARIANTS)]),
            ("target", ["Delta", "List"], ["delta", "list"]),
        ],
    )
    def test_is_in_the_schema(self, answer, end, types, members):
        """A cluster drops fields that its schema does not have."""
        node = answer["schema"]["properties"][end]

        assert node["properties"]["type"]["enum"] == types
        assert sorted(node["properties"]) == sorted(["type", *members])

    def test_is_in_the_reference_of_fields(self, answer):
        """A user of the plug-in reads what may be written."""
        for field in ("spec.strategy.counter.rangeMax", "spec.source.counter.partitions", "spec.target.list.writeMode"):
            assert f"| `{field}` |" in answer["fields"]

    def test_leaves_the_rest_of_the_schema_alone(self, answer):
        """A new type must not change what the fields of the others mean."""
        ours = open_api_schema()["properties"]["spec"]["properties"]

        for end in ("strategy", "source", "target"):
            theirs = answer["schema"]["properties"][end]["properties"]
            assert {
                name: one for name, one in ours[end]["properties"].items() if name != "type"
            }.items() <= theirs.items()

    def test_has_its_parameters_and_defaults(self, answer):
        """A member whose defaults are valid may be left out."""
        assert answer["params"] == ["CounterSource", "ListTarget", "CounterParams"]
        assert answer["key"] == ["number"]

    def test_says_what_may_change(self, answer):
        """Its pace is left out of the job's identity, its source is not."""
        assert answer["same hash"]
        assert answer["other hash"]
        assert {"spec.source.counter.partitions", "spec.target.type"} <= set(answer["hashed"])
        rules = [one["message"] for one in answer["schema"]["properties"]["strategy"]["x-kubernetes-validations"]]
        (immutable,) = [one for one in rules if one.startswith("strategy is immutable, except ")]
        assert "rangeMax" in immutable


class TestACombinationThatCannotWork:
    """Is refused when the spec is read, and not when its driver runs."""

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
    def test_is_refused_by_the_models(self, answer, given, path, reason, hint):
        """With the field, the reason, and what would work."""
        (said,) = answer["refused"][given]

        assert said.startswith(f"{path}: ")
        assert reason in said
        assert hint in said

    def test_is_refused_by_the_cluster(self, answer):
        """The server says the same at `kubectl apply`."""
        rules = [one["rule"] for one in answer["schema"]["x-kubernetes-validations"]]

        assert "self.strategy.type != 'Snapshot' || self.source.type in ['Delta']" in rules
        assert "self.strategy.type != 'Snapshot' || self.target.type in ['Delta']" in rules
        assert "self.strategy.type != 'Counter' || self.source.type in ['Counter', 'Kafka']" in rules
