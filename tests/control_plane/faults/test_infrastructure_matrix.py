"""Failures with a cause outside of the job, with each strategy: the job waits, reports why, continues, and uses no attempt."""

from __future__ import annotations

import pytest
from support.outages.causes import OUTAGES
from support.outages.patient_cluster import PatientCluster

from backfill_api.spec.strategies import Strategy
from backfill_core.pacing import barrier_pulse

TEN_MINUTES_S, HOUR_S = 600, 3600
ATTEMPTS_MAX = 25
"""Limit of attempts. Delays grow from 10 seconds; a job that restarts at once would have made more than sixty attempts."""

POLL_S, POD_S = 5, 15
"""Delay until the operator notices a driver, and start time of a pod."""


def played(name: str, strategy: str) -> PatientCluster:
    """Return the cluster after an outage of ten minutes; a single counted failure would have ended the job."""
    spec = {"strategy": {"type": strategy}, "backoffLimit": 0, "startupTimeoutSeconds": 120}
    if strategy == "SourceSplits":
        spec |= {"source": {"type": "Kafka", "kafka": {"bootstrapServers": "broker:9092", "topic": "orders"}}}
    if strategy == "InPlace":
        table = {"type": "Delta", "delta": {"path": "/data/a"}}
        spec |= {"source": table, "target": table, "transform": {"set": {"norm": "upper(name)"}}}
    cluster = PatientCluster(OUTAGES[name], TEN_MINUTES_S, spec)
    cluster.play(HOUR_S)
    return cluster


class TestACauseOutsideTheJob:
    """The cause lasts ten minutes, and `backoffLimit` is 0."""

    @pytest.mark.parametrize("strategy", sorted(Strategy.VARIANTS))
    @pytest.mark.parametrize("name", OUTAGES)
    def test_job_waits_says_why_and_completes(self, name: str, strategy: str) -> None:
        """No row of the matrix ends the job."""
        cluster = played(name, strategy)

        assert (cluster.seen.status.phase, cluster.seen.status.failures) == ("Succeeded", 0)
        assert any(OUTAGES[name].says in text for text in cluster.texts), cluster.texts
        assert cluster.launches <= ATTEMPTS_MAX or OUTAGES[name].refused is not None

    @pytest.mark.parametrize("name", [name for name, outage in OUTAGES.items() if outage.warns is not None])
    def test_driver_that_reports_a_hang_is_replaced_in_three_minutes(self, name: str) -> None:
        """It reports the hang after less than a minute, and should have ended without the operator."""
        cluster = played(name, "Snapshot")

        assert cluster.replaced_ms is not None
        assert barrier_pulse.LATE_S + POLL_S + cluster.replaced_ms / 1000 + POD_S <= 180
