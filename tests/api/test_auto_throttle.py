"""Targets of the automatic limit that a spec cannot have; each error names the field and a remedy."""

import pytest
from support.tables.jobs import job

from backfill_api.load import SpecError

ADDRESS = "http://prometheus:9090"


def load(source="/s", **auto):
    """Return a job with an automatic limit."""
    return job(source, "/t", throttle={"auto": {"floor": 1, "ceiling": 5, **auto}})


def queried(**query):
    """Return the query of a limit, changed."""
    return {"query": {"url": ADDRESS, "expression": "up", "max": 1} | query}


class TestATarget:
    @pytest.mark.parametrize(
        ("auto", "path", "message"),
        [
            ({"storeErrors": 1}, "storeErrors", "only S3 stores (s3a://) count refused requests"),
            ({"storeErrors": 101}, "storeErrors", "at most 100"),
            ({"lagSecondsMax": 5}, "lagSecondsMax", "use strategy.type: Arrangement or SourceSplits"),
            (queried(url="http://user:secret@host"), "query.url", f"write it as {ADDRESS}"),
            (queried(url=f"{ADDRESS}/?x=1"), "query.url", "without a user and a query"),
            (queried(url="file:///etc/passwd"), "query.url", "an address of http or https"),
            (queried(max=0.5), "query.max", "whole number"),
            (queried(max=0), "query.max", "at least 1"),
            (queried(expression=""), "query.expression", "must not be empty"),
        ],
    )
    def test_that_cannot_be_measured_is_refused(self, auto, path, message):
        """The limit would stay at its floor."""
        with pytest.raises(SpecError) as refused:
            load(**auto)

        [error] = refused.value.errors
        assert error.path == f"spec.throttle.auto.{path}"
        assert message in str(error)
        assert "secret" not in str(error)

    def test_of_a_store_needs_only_one_table_there(self):
        """The plan names the table whose store counts no requests."""
        assert load("s3a://lake/s", storeErrors=1).spec.throttle.auto.store_errors == 1

    def test_of_the_lag_fits_strategies_that_apply_changes_while_they_copy(self):
        """A slower copy leaves them more capacity."""
        loaded = job(
            "/s", "/t", strategy={"type": "Arrangement"},
            throttle={"auto": {"lagSecondsMax": 60, "floor": 1, "ceiling": 5}},
        )  # fmt: skip

        assert loaded.spec.throttle.auto.lag_seconds_max == 60
