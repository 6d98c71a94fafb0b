"""The width in the ConfigMap of an attempt, and the executors that its session requests."""

from __future__ import annotations

from typing import Any

import pytest
from support.operators.observations import spec

from backfill_api.load import load_backfill
from backfill_api.spec.override import Width
from backfill_api.spec.spec import BackfillSpec
from backfill_api.width import width_of
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.config_map import config_map
from backfill_operator.manifests.spark_conf import properties

SNAPSHOT: dict[str, Any] = {}
REPLICA = {"strategy": {"type": "Replica", "replica": {"maxInFlight": 3, "vnodes": 9}}}
ARRANGEMENT = {"strategy": {"type": "Arrangement", "arrangement": {"chunkRows": 500, "maxReadAmplification": 9}}}


def launch(fields: dict[str, Any], **width: int) -> Launch:
    """Return an attempt with these values of an override."""
    return Launch(
        "shop", "orders", "0b5a-uid", 1, "Run", spec(**fields), Installation("backfill:1"), width=Width(**width)
    )


def spec_of(fields: dict[str, Any], **width: int) -> BackfillSpec:
    """Return the spec that a driver reads."""
    return load_backfill(config_map(launch(fields, **width))["data"]["backfill.yaml"]).spec


class TestTheWidthOfALaunch:
    """A driver starts with the width of the override, or else with that of the spec."""

    @pytest.mark.parametrize(
        ("fields", "width"),
        [
            (SNAPSHOT, {"max_in_flight": 8}),
            (SNAPSHOT, {"split_target_seconds": 9}),
            (REPLICA, {"max_in_flight": 8, "executors": 3}),
            (ARRANGEMENT, {"chunk_rows": 70}),
            (ARRANGEMENT, {"chunk_rows": 0, "max_in_flight": 1}),
            (ARRANGEMENT | {"executor": {"instances": 5}}, {"executors": 1}),
        ],
    )
    def test_an_override_replaces_only_its_values(self, fields: dict[str, Any], width: dict[str, int]) -> None:
        """Other settings of the strategy stay."""
        before, after = spec(**fields), spec_of(fields, **width)
        params = {name: value for name, value in after.strategy.params if name not in width}

        assert width_of(after) == width_of(before).model_copy(update=width)
        assert params == {name: value for name, value in before.strategy.params if name not in width}

    @pytest.mark.parametrize("fields", [SNAPSHOT, REPLICA, ARRANGEMENT])
    def test_without_an_override_the_spec_is_unchanged(self, fields: dict[str, Any]) -> None:
        """The spec has the width."""
        assert spec_of(fields).strategy == spec(**fields).strategy

    @pytest.mark.parametrize("executor", [{"instances": 0}, {"instances": 4}, {"dynamic": {"min": 1, "max": 3}}])
    def test_a_driver_reads_how_many_executors_its_spec_requests(self, executor: dict[str, Any]) -> None:
        """It stores the number with its state, and knows whether a command can change it. The template concerns no driver."""
        template = {"metadata": {"labels": {"user.backfill.dev/team": "data"}}}
        given = {"executor": executor | {"template": template}}

        assert width_of(spec_of(given)) == width_of(spec(**given))
        assert spec_of(given).executor.template == {}

    @pytest.mark.parametrize("executor", [{}, {"instances": 4}, {"instances": 0}, {"dynamic": {}}])
    def test_a_driver_of_a_queued_job_keeps_its_executors(self, executor: dict[str, Any]) -> None:
        """The queue admitted them. Without that, the next attempt would start with a number that a command set before."""
        queued = spec_of({"executor": executor, "queue": "team"})

        assert width_of(queued).executors is None
        assert queued.queue is None, "an earlier version of a driver refuses the field"


class TestTheExecutorsOfASession:
    """Spark requests the number in force."""

    @pytest.mark.parametrize(
        ("executor", "override", "requested"),
        [
            ({}, {}, "1"),
            ({"instances": 4}, {}, "4"),
            ({"instances": 4}, {"executors": 2}, "2"),
            ({}, {"executors": 3}, "3"),
        ],
    )
    def test_an_override_takes_precedence(
        self, executor: dict[str, Any], override: dict[str, int], requested: str
    ) -> None:
        """An attempt that starts with the number of the spec would request executors and remove them again."""
        made = properties(launch({"executor": executor}, **override))

        assert made["spark.executor.instances"] == requested
