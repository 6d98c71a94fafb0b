"""The hash that shows whether a state in a target belongs to a spec."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from backfill_api.load import load_backfill

DOCUMENT: dict[str, Any] = {
    "apiVersion": "backfill.dev/v1alpha1",
    "kind": "Backfill",
    "metadata": {"name": "orders"},
    "spec": {
        "source": {"type": "Delta", "delta": {"path": "./orders", "key": ["order_id"]}},
        "transform": {"select": ["order_id", "amount"], "where": "amount > 0"},
        "target": {"type": "Delta", "delta": {"path": "./copy", "writeMode": "Upsert"}},
    },
}

GOLDEN = "d21ea3fa0d5cfe5fbbf6cb4440a446f05268ba8c475220249c4be1e9f6240696"


def hash_with(path: str, value: object) -> str:
    """Return the hash after one change; the path has the form `spec.after`."""
    document = copy.deepcopy(DOCUMENT)
    *parents, last = path.split(".")
    here = document
    for part in parents:
        here = here.setdefault(part, {})
    here[last] = value
    return load_backfill(document).spec_hash


class TestTheHash:
    """The hash of a job is the same in every version of this software, and differs if the result may differ."""

    def test_the_hash_is_stable(self) -> None:
        """A different value would orphan the state of every running job."""
        assert load_backfill(DOCUMENT).spec_hash == GOLDEN

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("spec.jobId", "other"),
            ("metadata.name", "other"),
            ("spec.source.delta.path", "./other"),
            ("spec.source.delta.version", 3),
            ("spec.source.delta.key", ["order_id", "line"]),
            ("spec.transform.where", "amount > 1"),
            ("spec.transform.select", ["amount", "order_id"]),
            ("spec.target.delta.path", "./other"),
            ("spec.target.delta.writeMode", "Changelog"),
            ("spec.target.delta.key", ["id"]),
            ("spec.strategy.snapshot", {"vnodes": 512}),
            ("spec.spark", {"conf": {"spark.sql.session.timeZone": "Europe/Berlin"}}),
            ("spec.spark", {"conf": {"spark.sql.ansi.enabled": "false"}}),
            ("spec.spark", {"conf": {"spark.sql.caseSensitive": "true"}}),
            ("spec.spark", {"conf": {"spark.sql.legacy.timeParserPolicy": "LEGACY"}}),
            ("spec.spark", {"conf": {"spark.sql.legacy.sizeOfNull": "true"}}),
        ],
    )
    def test_the_hash_changes_with_the_result(self, path: str, value: object) -> None:
        """Resuming from such a state would mix two jobs in one table."""
        assert hash_with(path, value) != GOLDEN

    def test_the_hash_of_an_earlier_release_has_no_settings_of_spark(self) -> None:
        """A state of an earlier release must continue with such a setting."""
        document = copy.deepcopy(DOCUMENT)
        document["spec"]["spark"] = {"conf": {"spark.sql.ansi.enabled": "false"}}

        assert load_backfill(document).spec_hash_before_conf == GOLDEN

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("spec.source.delta.schemaChange", "Ignore"),
            ("spec.strategy.snapshot", {"maxInFlight": 1, "splitTargetSeconds": 1, "changeBatchSeconds": 60}),
            ("spec.strategy.snapshot", {"order": {"column": "at"}}),
            ("spec.throttle", {"rowsPerSecond": 5}),
            ("spec.barrier", {"intervalMs": 5000}),
            ("spec.after", "Follow"),
            ("spec.verify", "Final"),
            ("spec.desiredState", "Paused"),
            ("spec.spark", {"conf": {"spark.sql.shuffle.partitions": "8", "spark.executor.memory": "2g"}}),
        ],
    )
    def test_the_hash_does_not_change_with_the_pace(self, path: str, value: object) -> None:
        """Users change these fields to get a stuck job going again."""
        assert hash_with(path, value) == GOLDEN

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("spec.strategy", {"type": "Snapshot", "snapshot": {"vnodes": 256}}),
            ("spec.target.delta.key", ["order_id"]),
            ("spec.target.delta.existingRows", "Refuse"),
            ("spec.jobId", "default/orders"),
            ("metadata.labels", {"team": "sales"}),
            ("spec.spark", {"conf": {"spark.sql.session.timeZone": "utc", "spark.sql.ansi.enabled": "TRUE"}}),
        ],
    )
    def test_the_hash_does_not_change_if_a_default_is_written_out(self, path: str, value: object) -> None:
        """A cluster fills in defaults, and the same file must be the same job in a local run."""
        assert hash_with(path, value) == GOLDEN
