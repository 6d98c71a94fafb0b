"""The width in the ConfigMap of an attempt."""

from __future__ import annotations

from typing import Any

import pytest
from support.operators.observations import spec

from backfill_api.load import load_backfill
from backfill_api.spec.strategies import Strategy
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.config_map import config_map


def strategy_of(max_in_flight: int | None, **fields: Any) -> Strategy:
    """Return the strategy that a driver reads."""
    launch = Launch(
        "shop", "orders", "0b5a-uid", 1, "Run", spec(**fields), Installation("backfill:1"), max_in_flight=max_in_flight
    )
    return load_backfill(config_map(launch)["data"]["backfill.yaml"]).spec.strategy


@pytest.mark.parametrize("fields", [{}, {"strategy": {"type": "Replica", "replica": {"maxInFlight": 3, "vnodes": 9}}}])
class TestTheWidthOfALaunch:
    """A driver starts with the width of the override, or else with that of the spec."""

    def test_an_override_replaces_only_the_width(self, fields: dict[str, Any]) -> None:
        """Other settings of the strategy stay."""
        expected = spec(**fields).strategy.params.model_copy(update={"max_in_flight": 8})

        assert strategy_of(8, **fields).params == expected

    def test_without_an_override_the_spec_is_unchanged(self, fields: dict[str, Any]) -> None:
        """The spec has the width."""
        assert strategy_of(None, **fields) == spec(**fields).strategy
