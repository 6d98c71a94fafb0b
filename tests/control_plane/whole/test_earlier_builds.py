"""Two minor versions apart: what earlier builds wrote is read today, and what is written today those builds read.

Nothing is released yet, so two builds of the days before stand for two versions. Their own code wrote the documents
(build-tools/contract_documents.py); the next ones are those of releases.
"""

import gzip
import json
from dataclasses import replace

import pytest
from support.repository import ROOT

from backfill_api.load import load_backfill
from backfill_api.model import known
from backfill_api.status.ending import Ending
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import Receipt
from backfill_api.wire import Ack, CommandRequest
from backfill_core import strategies
from backfill_core.job.state import JobState
from backfill_core.lifecycle.actions import LaunchDriver
from backfill_core.lifecycle.decide import decide
from backfill_operator.informer.parse import observation_of, status_of
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.config_map import backfill_document
from backfill_operator.reconcile.status_writer import dropped_paths

BUILDS = {
    path.name.removesuffix(".json.gz"): json.loads(gzip.decompress(path.read_bytes()))
    for path in sorted((ROOT / "tests" / "support" / "builds").glob("*.json.gz"))
}
EACH = pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS.keys())
EXAMPLES = [(build, one) for build in BUILDS for one in BUILDS[build]["backfills"]]
EACH_EXAMPLE = pytest.mark.parametrize(
    "one", [one for _, one in EXAMPLES], ids=[f"{build}-{one['name']}" for build, one in EXAMPLES]
)
STATES = [
    (build, strategy, text) for build in BUILDS for strategy, texts in BUILDS[build]["states"].items() for text in texts
]
SPEC = {
    "source": {"type": "Delta", "delta": {"path": "/data/a", "key": ["id"]}},
    "target": {"type": "Delta", "delta": {"path": "/data/b"}},
}
NOW_MS = 1_800_000_000_000


def written(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def unknown(schema, value, whole, path="command"):
    """Yield the paths of what a closed JSON schema does not know, as an earlier build would find them."""
    schema = whole["$defs"][schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema
    if "anyOf" in schema:
        found = [list(unknown(one, value, whole, path)) for one in schema["anyOf"] if one.get("type") != "null"]
        yield from min(found, key=len)
    elif isinstance(value, dict):
        for name, below in value.items():
            if name not in schema.get("properties", {}):
                yield f"{path}.{name}"
            else:
                yield from unknown(schema["properties"][name], below, whole, f"{path}.{name}")
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value}"


@EACH
class TestWhatAnEarlierBuildWrote:
    def test_there_are_two_of_them(self, build):
        """Each with something of every kind, of every strategy that it had."""
        assert len(BUILDS) == 2
        assert min(len(build[one]) for one in ("statuses", "endings", "commands", "backfills")) > 1
        assert {"Snapshot", "Arrangement", "SourceSplits"} <= build["states"].keys()
        assert all(build["states"].values())

    def test_in_statuses_is_all_read(self, build):
        """An attempt that is not seen is launched beside itself; a command that is lost is not given."""
        for status in build["statuses"]:
            assert dropped_paths(status, written(status_of({"status": status}))) == []

    def test_in_statuses_launches_no_second_driver(self, build):
        """The operator is new, its cache is empty: without a look at the pods nothing is made."""
        for status in build["statuses"]:
            if (status.get("attempt") or {}).get("state") != "Created":
                continue
            metadata = {"namespace": "shop", "name": "orders", "uid": "uid", "generation": status["observedGeneration"]}
            decision = decide(observation_of({"metadata": metadata, "spec": SPEC, "status": status}, ()), NOW_MS)
            assert not any(isinstance(one, LaunchDriver) for one in decision.actions)

    @pytest.mark.parametrize(("name", "model"), [("progress", Progress), ("receipt", Receipt), ("ack", Ack)])
    def test_in_answers_is_all_read(self, build, name, model):
        """A driver at work keeps its image while the operator is upgraded."""
        assert dropped_paths(build[name], written(model.model_validate(known(model, build[name])))) == []

    def test_in_termination_messages_is_all_read(self, build):
        """Its plan, its proof, and why it ended."""
        for text in build["endings"]:
            assert dropped_paths(json.loads(text), written(Ending.read(text))) == []

    def test_as_commands_is_read_by_the_driver_of_today(self, build):
        """The operator was rolled back; the attempt has the newer image."""
        for one in build["commands"]:
            assert dropped_paths(one, written(CommandRequest.model_validate_json(json.dumps(one)))) == []

    def test_as_commands_is_all_that_it_is_told_today(self, build):
        """The earlier contract is closed: one field more, and it refuses all of the command."""
        for one in build["commands"]:
            told = CommandRequest.model_validate(one).model_dump(
                mode="json", by_alias=True, exclude_none=True, exclude_defaults=True
            )
            assert list(unknown(build["commandSchema"], told, build["commandSchema"])) == []


@EACH_EXAMPLE
class TestABackfillOfAnEarlierBuild:
    def test_is_the_same_job_today(self, one):
        """Another hash, and the state in its target is that of another job: all would be copied again."""
        made = load_backfill(one["document"])
        assert one["specHash"] in (made.spec_hash, made.spec_hash_before_conf)

    def test_is_told_its_driver_in_the_same_words(self, one):
        """By the operator of today to a driver of then, which refuses a field that it does not know; and the other way round."""
        made = load_backfill(one["document"])
        launch = Launch("shop", made.metadata.name, "uid", 1, "Run", made.spec, Installation("backfill:1"))

        assert backfill_document(launch) == one["forDriver"]
        given, namespaced = load_backfill(one["forDriver"]), dict(one["document"])
        namespaced["metadata"] = namespaced["metadata"] | {"namespace": "shop"}
        assert given.spec_hash == load_backfill(namespaced).spec_hash


@pytest.mark.parametrize(
    ("strategy", "text"),
    [(strategy, text) for _, strategy, text in STATES],
    ids=[f"{build}-{strategy}-{number}" for number, (build, strategy, _) in enumerate(STATES)],
)
class TestAStateThatAnEarlierBuildLeft:
    def test_is_read_and_stored_again_with_all_that_it_says(self, strategy, text):
        """A position that is forgotten is rows that are read twice or never."""
        state = JobState.decode(text)
        stored = strategies.discover()[strategy].decode(state.progress)
        again = replace(state, progress=stored.encode()).encode()

        assert dropped_paths(json.loads(text), json.loads(again)) == []
