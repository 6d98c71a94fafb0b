"""The address that a driver queries for `throttle.auto`: only one that the administrator allows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operators.agreement import agreed_pod
from support.operators.observations import spec

from backfill_core.cluster_rules.finding import ManifestRefusedError
from backfill_core.cluster_rules.limits import Limits
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.settings import OperatorSettings

PLAIN = Installation("registry/backfill:1")
ALLOWED = ("http://prometheus:9090", "http://metrics/team/*")


def build(url: str, *allowed: str) -> None:
    """Make the pod of a driver that queries an address."""
    query = {"url": url, "expression": "up", "max": 1}
    queries = spec(throttle={"auto": {"query": query, "floor": 1, "ceiling": 2}})
    limits = OperatorSettings(allowed_query_urls=allowed).limits
    agreed_pod(Launch("shop", "orders", "0b5a-uid", 1, "Run", queries, replace(PLAIN, limits=limits)))


class TestAnAddress:
    @pytest.mark.parametrize("url", ["http://prometheus:9090", "http://prometheus:9090/", "http://metrics/team/a"])
    def test_is_used_if_an_administrator_allows_it(self, url: str) -> None:
        """Alone, or with all addresses below a path."""
        build(url, *ALLOWED)

    @pytest.mark.parametrize(
        "url",
        ["http://prometheus.evil:9090", "http://prometheus:90901", "https://prometheus:9090", "http://prometheus:9090/x",
         "http://metrics/team/../other", "http://metrics/teams", "http://metrics"],
    )  # fmt: skip
    def test_beside_the_allowed_ones_is_refused(self, url: str) -> None:
        """An allowed address permits no other host, port or path."""
        with pytest.raises(ManifestRefusedError) as refused:
            build(url, *ALLOWED)

        assert refused.value.path == "spec.throttle.auto.query.url"
        assert "limits.allowedQueryUrls of the chart (BACKFILL_OPERATOR_ALLOWED_QUERY_URLS)" in refused.value.hint

    def test_is_refused_by_default(self) -> None:
        """A driver would send requests into the cluster's network for the author of a spec."""
        assert Limits().query_urls == ()
        with pytest.raises(ManifestRefusedError):
            build("http://prometheus:9090")

    @pytest.mark.parametrize("pattern", ["*", "http://*", "http://prom*", "prometheus:9090", "http://a@b"])
    def test_cannot_be_allowed_by_the_beginning_of_a_host(self, pattern: str) -> None:
        """`http://prom*` would be `http://prom.evil` too."""
        with pytest.raises(ValueError, match="pattern"):
            OperatorSettings(allowed_query_urls=(pattern,))
