"""Events of OpenLineage: which one is due, and its content."""

from __future__ import annotations

import pytest

from backfill_core.lineage.events import (
    MESSAGE_CHARACTERS_MAX,
    RUNNING_EVERY_S,
    Dataset,
    LineageRun,
    event,
    running_due,
    type_of_end,
)

RUN = LineageRun(
    "3f5b5f0e-0000-4000-8000-000000000001",
    "shop",
    "orders",
    Dataset("s3://lake", "orders"),
    Dataset("s3://lake", "copy"),
)


class TestWhichEventIsDue:
    def test_first_progress_is_reported_at_once_and_the_next_one_after_minutes(self) -> None:
        """Progress comes four times a second."""
        assert running_due(None, 10.0)
        assert not running_due(10.0, 10.0 + RUNNING_EVERY_S - 1)
        assert running_due(10.0, 10.0 + RUNNING_EVERY_S)

    @pytest.mark.parametrize(("outcome", "kind"), [("Complete", "COMPLETE"), ("Stopped", "ABORT"), ("Failed", "FAIL")])
    def test_end_has_the_type_of_the_outcome(self, outcome: str, kind: str) -> None:
        """A stopped run is no failure: another run continues the job."""
        assert type_of_end(outcome) == kind


class TestAnEvent:
    def test_event_names_run_job_and_both_datasets(self) -> None:
        """OpenLineage requires these fields."""
        made = event(RUN, "START", 1_800_000_000_123)

        assert (made["eventType"], made["eventTime"]) == ("START", "2027-01-15T08:00:00.123Z")
        assert made["run"] == {"runId": RUN.run_id, "facets": {}}
        assert (made["job"]["namespace"], made["job"]["name"]) == ("shop", "orders")
        assert made["inputs"] == [{"namespace": "s3://lake", "name": "orders"}]
        assert made["outputs"] == [{"namespace": "s3://lake", "name": "copy"}]
        assert made["schemaURL"].startswith("https://openlineage.io/spec/2-0-2/")
        assert made["job"]["facets"]["jobType"]["processingType"] == "BATCH"

    def test_failure_has_a_bounded_message(self) -> None:
        """Servers refuse large events."""
        facet = event(RUN, "FAIL", 0, problem="x" * 9000)["run"]["facets"]["errorMessage"]

        assert facet["message"] == "x" * MESSAGE_CHARACTERS_MAX
        assert facet["programmingLanguage"] == "PYTHON"
        assert facet["_producer"]
        assert facet["_schemaURL"].endswith("/1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet")
