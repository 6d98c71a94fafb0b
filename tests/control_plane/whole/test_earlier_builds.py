"""Builds that are two minor versions apart read each other's documents.

There is no release yet, so two earlier builds stand for two versions. Their own code wrote the documents
(build-tools/contract_documents.py); later documents come from releases.
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
EXAMPLES = [(build, example) for build in BUILDS for example in BUILDS[build]["backfills"]]
EACH_EXAMPLE = pytest.mark.parametrize(
    "example", [example for _, example in EXAMPLES], ids=[f"{build}-{example['name']}" for build, example in EXAMPLES]
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
    """Yield the paths that a closed JSON schema does not define, which an earlier build would reject."""
    schema = whole["$defs"][schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema
    if "anyOf" in schema:
        alternatives = [
            list(unknown(alternative, value, whole, path))
            for alternative in schema["anyOf"]
            if alternative.get("type") != "null"
        ]
        yield from min(alternatives, key=len)
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
    def test_documents_of_two_builds_exist(self, build):
        """Each has documents of every kind, and of every strategy that it had."""
        assert len(BUILDS) == 2
        assert min(len(build[kind]) for kind in ("statuses", "endings", "commands", "backfills")) > 1
        assert {"Snapshot", "Arrangement", "SourceSplits"} <= build["states"].keys()
        assert all(build["states"].values())

    def test_statuses_of_an_earlier_build_are_read_completely(self, build):
        """An unread attempt would be launched again, and an unread command lost."""
        for status in build["statuses"]:
            assert dropped_paths(status, written(status_of({"status": status}))) == []

    def test_statuses_of_an_earlier_build_launch_no_second_driver(self, build):
        """A new operator has an empty cache: it creates no driver without reading the pods."""
        for status in build["statuses"]:
            if (status.get("attempt") or {}).get("state") != "Created":
                continue
            metadata = {"namespace": "shop", "name": "orders", "uid": "uid", "generation": status["observedGeneration"]}
            decision = decide(observation_of({"metadata": metadata, "spec": SPEC, "status": status}, ()), NOW_MS)
            assert not any(isinstance(action, LaunchDriver) for action in decision.actions)

    @pytest.mark.parametrize(("name", "model"), [("progress", Progress), ("receipt", Receipt), ("ack", Ack)])
    def test_answers_of_an_earlier_driver_are_read_completely(self, build, name, model):
        """A running driver keeps its image while the operator is upgraded."""
        assert dropped_paths(build[name], written(model.model_validate(known(model, build[name])))) == []

    def test_termination_messages_of_an_earlier_driver_are_read_completely(self, build):
        """They contain its plan, its proof, and the reason of its end."""
        for text in build["endings"]:
            assert dropped_paths(json.loads(text), written(Ending.read(text))) == []

    def test_commands_of_an_earlier_build_are_read_by_todays_driver(self, build):
        """The operator was rolled back, and the attempt has the newer image."""
        for command in build["commands"]:
            assert dropped_paths(command, written(CommandRequest.model_validate_json(json.dumps(command)))) == []

    def test_commands_of_today_fit_the_earlier_contract(self, build):
        """The earlier contract is closed: it refuses a command with an additional field."""
        for command in build["commands"]:
            sent = CommandRequest.model_validate(command).model_dump(
                mode="json", by_alias=True, exclude_none=True, exclude_defaults=True
            )
            assert list(unknown(build["commandSchema"], sent, build["commandSchema"])) == []


@EACH_EXAMPLE
class TestABackfillOfAnEarlierBuild:
    def test_backfill_of_an_earlier_build_is_the_same_job_today(self, example):
        """Otherwise the state in its target would belong to another job, and all rows would be copied again."""
        made = load_backfill(example["document"])
        assert example["specHash"] in (made.spec_hash, made.spec_hash_before_conf)

    def test_backfill_is_given_to_its_driver_in_the_same_form(self, example):
        """Today's operator sends it to an earlier driver, which refuses unknown fields, and vice versa.

        Only the number of executors is new in it. An earlier driver reads that field as its build's operator did.
        """
        made = load_backfill(example["document"])
        launch = Launch("shop", made.metadata.name, "uid", 1, "Run", made.spec, Installation("backfill:1"))

        document = backfill_document(launch)
        executor = document["spec"].pop("executor", {})
        assert executor.items() <= example["document"]["spec"].get("executor", {}).items()
        assert executor.keys() <= {"instances", "dynamic"}
        assert document == example["forDriver"]
        given, namespaced = load_backfill(example["forDriver"]), dict(example["document"])
        namespaced["metadata"] = namespaced["metadata"] | {"namespace": "shop"}
        assert given.spec_hash == load_backfill(namespaced).spec_hash


@pytest.mark.parametrize(
    ("strategy", "text"),
    [(strategy, text) for _, strategy, text in STATES],
    ids=[f"{build}-{strategy}-{number}" for number, (build, strategy, _) in enumerate(STATES)],
)
class TestAStateThatAnEarlierBuildLeft:
    def test_state_of_an_earlier_build_is_read_and_stored_again_completely(self, strategy, text):
        """Rows of a lost position would be read twice or never."""
        state = JobState.decode(text)
        stored = strategies.discover()[strategy].decode(state.progress)
        again = replace(state, progress=stored.encode()).encode()

        assert dropped_paths(json.loads(text), json.loads(again)) == []
