"""Each Backfill has metrics on the operator's port: bounded, current, and gone with the object."""

import gzip
import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from support.operators.finished import finished
from support.operators.running_jobs import NOW_MS, running_job

from backfill_api.spec.strategies import Strategy
from backfill_api.status.conditions import REASONS
from backfill_api.status.procedure import ProcedureKind
from backfill_api.timestamps import rfc3339
from backfill_operator.informer.cache import Cache
from backfill_operator.informer.compact import LARGE_BYTES, is_stub
from backfill_operator.informer.figures import JobFigures
from backfill_operator.job_metrics import FAMILIES, JobMetrics
from backfill_operator.metrics import Metrics

KEY = ("shop", "orders")


def ago(seconds):
    """Return the time some seconds before `NOW_MS`."""
    return rfc3339(NOW_MS - seconds * 1000)


def job(status=None, *, namespace="shop", name="orders", version=5, uid="uid-1", **spec):
    """Return a Backfill with this status."""
    metadata = {"namespace": namespace, "name": name, "uid": uid, "generation": 1, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"strategy": {"type": "Snapshot"}} | spec, "status": status}


def running(*, progress=None, control=None, conditions=(), **status):
    """Return the status of a job whose driver has been ready for an hour."""
    attempt = {"number": 2, "state": "Created", "readyTime": ago(3600)}
    shown = {"rowsTotal": 1000, "rowsDone": 610, "percent": 61, "step": "Copy", "lastCommitTime": ago(2)}
    return {
        "phase": "Running", "attempt": attempt, "control": control or {}, "progress": shown | (progress or {}), "conditions": list(conditions),
    } | status  # fmt: skip


def condition(type_, status="True", *, seconds=7200, reason="AsRequested"):
    """Return a condition since some seconds ago."""
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": ago(seconds)}


def cache_of(*backfills):
    """Return a cache with these Backfills."""
    cache = Cache()
    for backfill in backfills:
        cache.put_backfill(backfill)
    return cache


def text_of(cache, *, limit=100, leads=True):
    """Return the rendered text."""
    return "".join(JobMetrics(cache, limit, leads=lambda: leads, now_ms=lambda: NOW_MS).chunks())


def series(cache, **options):
    """Return every sample as (name without prefix, further labels) with its value, read by another parser; one job only."""
    samples = {}
    for family in text_string_to_metric_families(text_of(cache, **options)):
        for sample in family.samples:
            labels = {
                name: value for name, value in sample.labels.items() if name not in ("namespace", "name", "strategy")
            }
            key = (sample.name.removeprefix("backfill_job_"), *sorted(labels.items()))
            assert key not in samples
            samples[key] = sample.value
    return samples


def of(status):
    """Return the samples of one job with this status."""
    return series(cache_of(job(status)))


class TestARunningJob:
    """The figures are those of its status at the time of the scrape."""

    def test_running_job_has_its_figures(self):
        """Each figure has one sample."""
        samples = of(running(
            progress={
                "rowsPerSecond": 82, "lagSeconds": 65, "lagVersions": 9, "eta": rfc3339(NOW_MS + 720_000), "etaSeconds": 725,
                "etaSecondsLow": 545, "etaSecondsHigh": 1085, "maxInFlight": 8, "executors": 3, "warningCodes": ["RetentionEnding"],
            },
            conditions=[condition("Ready", reason="Running"), condition("Throttled"), condition("Paused", "False")],
            receipt={"mismatches": 0, "complete": False},
            history=[{"reason": "Infrastructure"}, {"reason": "Transient"}, {"reason": "Transient"}, {"reason": "Suspended"}],
            lostDrivers=[{"reason": "OOMKilled", "count": 3}], lostExecutors=[{"reason": "Deleted", "count": 7}],
        ))  # fmt: skip

        assert samples == {
            ("series_omitted",): 0, ("info", ("phase", "Running"), ("reason", "Running"), ("step", "Copy")): 1,
            ("receipt", ("state", "Partial")): 1, ("percent",): 61, ("rows",): 1000, ("rows_done",): 610, ("rows_per_second",): 82,
            ("lag_seconds",): 65, ("lag_versions",): 9, ("eta_seconds",): 720, ("eta_seconds_low",): 540, ("eta_seconds_high",): 1080,
            ("throttled",): 1, ("max_in_flight",): 8, ("executors",): 3, ("paused",): 0, ("attempt",): 2, ("commit_age_seconds",): 2, ("warnings", ("code", "RetentionEnding")): 1,
            ("failed_attempts", ("reason", "Infrastructure")): 1, ("failed_attempts", ("reason", "Transient")): 2,
            ("drivers_lost_total", ("reason", "OOMKilled")): 3, ("executors_lost_total", ("reason", "Deleted")): 7,
        }  # fmt: skip

    def test_labels_are_namespace_name_and_strategy(self):
        """They are the same for each metric."""
        families = text_string_to_metric_families(text_of(cache_of(job(running()))))
        labels = [
            sample.labels
            for family in families
            for sample in family.samples
            if sample.name != "backfill_job_series_omitted"
        ]

        assert all(
            {"namespace": "shop", "name": "orders", "strategy": "Snapshot"}.items() <= given.items() for given in labels
        )

    def test_families_are_in_the_order_of_the_figures(self):
        """The step is a label of `backfill_job_info`."""
        assert ("step", *(family.field for family in FAMILIES)) == JobFigures._fields

    def test_job_of_a_topic_is_behind_in_records(self):
        """It has no versions."""
        samples = of(running(progress={"lagVersions": 0, "lagRecords": 12}))

        assert samples[("lag_records",)] == 12
        assert ("lag_versions",) not in samples

    @pytest.mark.parametrize(
        ("commit", "resumed", "age"), [(2, 7200, 2), (7200, 7200, 3600), (None, 7200, 3600), (7200, 90, 90)],
        ids=["since its commit", "since the driver was ready", "before the first commit", "since it was resumed"],
    )  # fmt: skip
    def test_age_of_the_commit_begins_when_a_commit_was_possible(self, commit, resumed, age):
        """A driver that has just started, or was just resumed, is not late."""
        progress = {"lastCommitTime": None if commit is None else ago(commit)}
        samples = of(running(progress=progress, conditions=[condition("Paused", "False", seconds=resumed)]))

        assert samples[("commit_age_seconds",)] == age

    @pytest.mark.parametrize(
        ("control", "conditions", "paused"),
        [({}, [condition("Paused")], 1), ({"rowsPerSecond": 0}, [], 1), ({"bytesPerSecond": 0}, [], 1), ({"rowsPerSecond": 5}, [], 0)],
        ids=["paused", "a limit of 0 rows", "a limit of 0 bytes", "a limit"],
    )  # fmt: skip
    def test_limit_of_zero_is_a_pause(self, control, conditions, paused):
        """It holds the snapshot too, and commits nothing."""
        assert of(running(control=control, conditions=conditions))[("paused",)] == paused

    def test_command_waits_since_it_was_sent(self):
        """A driver that starts later cannot acknowledge earlier."""
        assert of(running(control={"pendingSince": ago(45)}))[("command_pending_seconds",)] == 45
        assert of(running(control={"pendingSince": ago(9000)}))[("command_pending_seconds",)] == 3600
        assert ("command_pending_seconds",) not in of(running())

    def test_job_without_a_driver_has_no_rate_no_lag_and_no_age(self):
        """They would be those of the past."""
        ended = {"number": 2, "state": "Ended", "readyTime": ago(3600)}
        samples = of(
            running(
                phase="Suspended",
                attempt=ended,
                progress={"lagSeconds": 5, "rowsPerSecond": 82},
                control={"pendingSince": ago(99)},
            )
        )

        assert {("percent",), ("rows_done",), ("attempt",)} <= samples.keys()
        past = {"rows_per_second", "lag_seconds", "lag_versions", "commit_age_seconds", "command_pending_seconds"}
        assert not {(name,) for name in past} & samples.keys()

    @pytest.mark.parametrize("procedure", get_args(ProcedureKind))
    @pytest.mark.parametrize("reason", ["", "x" * LARGE_BYTES], ids=["small", "large"])
    def test_procedure_has_no_figures_of_the_driver_before_it(self, procedure, reason):
        """A copy back after a switch-over runs for weeks, and the driver that followed the source was long gone."""
        progress = {
            "reason": reason, "rowsPerSecond": 82, "lagSeconds": 5, "lagVersions": 1, "eta": ago(0), "maxInFlight": 8,
            "warningCodes": ["RetentionEnding"],
        }  # fmt: skip
        attempt = {"number": 3, "procedure": procedure, "state": "Created", "readyTime": ago(3600)}
        samples = of(
            running(
                attempt=attempt, progress=progress, conditions=[condition("NonConvergent")],
                control={"pendingSince": ago(45)},
            )
        )  # fmt: skip

        assert {name for name, *_ in samples} == {
            "series_omitted", "info", "percent", "rows", "rows_done", "throttled", "paused", "attempt", "command_pending_seconds",
        }  # fmt: skip

    def test_job_without_a_status_is_new(self):
        """It has no figures yet."""
        samples = of(None)

        assert samples == {
            ("series_omitted",): 0, ("info", ("phase", "New"), ("reason", ""), ("step", "")): 1, ("throttled",): 0, ("paused",): 0,
            ("attempt",): 0,
        }  # fmt: skip

    def test_large_job_keeps_its_figures(self):
        """The cache has only a stub of it."""
        status = running(
            progress={"reason": "x" * LARGE_BYTES, "warningCodes": ["CommitStalled"]},
            conditions=[condition("Throttled")],
        )
        status |= {
            "lostDrivers": [{"reason": "Evicted", "count": 1}],
            "history": [{"reason": "Transient"}],
            "receipt": {"rows": 1},
        }
        large, small = cache_of(job(status)), json.loads(json.dumps(status))
        del small["progress"]["reason"]

        assert is_stub(large.backfill(KEY))
        assert series(large) == series(cache_of(job(small)))


class TestAReceipt:
    @pytest.mark.parametrize(
        ("receipt", "state"),
        [
            ({"rows": 5}, "Equal"), ({"rows": 5, "complete": True}, "Equal"), ({"complete": False}, "Partial"),
            ({"mismatches": 1, "complete": False}, "Differs"), ({"fileMismatches": 2}, "Differs"),
        ],
    )  # fmt: skip
    def test_receipt_has_one_state(self, receipt, state):
        """A difference counts more than an incomplete comparison."""
        states = [key for key in of(running(receipt=receipt)) if key[0] == "receipt"]

        assert states == [("receipt", ("state", state))]


class TestAFinishedJob:
    @pytest.mark.parametrize("rests", [True, False])
    def test_finished_job_has_its_state_and_its_receipt(self, rests):
        """A hundred thousand may wait for their deletion. The cache has no JSON of those at rest."""
        backfill = finished(1)
        if not rests:
            backfill["metadata"]["finalizers"] = ["backfill.dev/drain"]
        cache = cache_of(backfill)

        assert (cache.rest((backfill["metadata"]["namespace"], "job-1")) is not None) == rests
        assert series(cache) == {
            ("series_omitted",): 0, ("info", ("phase", "Succeeded"), ("reason", "Complete"), ("step", "")): 1,
            ("receipt", ("state", "Equal")): 1,
        }  # fmt: skip


class TestTheNumberOfSeries:
    """Prometheus keeps every series for hours, so no user may create them without a limit."""

    def test_deleted_job_has_no_series(self):
        """Nothing is stored for it."""
        cache = cache_of(job(running()), job(running(), name="items", uid="uid-2"))
        cache.drop_backfill(KEY, "uid-1")

        assert 'name="items"' in text_of(cache)
        assert 'name="orders"' not in text_of(cache)

    def test_standby_has_no_series_of_jobs(self):
        """Each series would exist twice."""
        assert text_of(cache_of(job(running())), leads=False) == ""

    def test_unfinished_jobs_come_first_under_a_limit(self):
        """The number of the others is a metric."""
        jobs = [job({"phase": "Succeeded"}, name=f"a-{number}", uid=f"a-{number}") for number in range(5)]
        text = text_of(cache_of(*jobs, job(running(), name="z")), limit=2)

        assert "backfill_job_series_omitted 4\n" in text
        assert {line.split('name="')[1].split('"')[0] for line in text.splitlines() if "_info{" in line} == {"z", "a-0"}

    def test_limit_of_zero_switches_them_off(self):
        """A cluster may have a small Prometheus."""
        assert [line for line in text_of(cache_of(job(running())), limit=0).splitlines() if "{" in line] == []

    def test_names_that_no_version_defines_are_other(self):
        """A status may be written by a driver or by hand."""
        odd = running(
            phase="Odd", progress={"step": "odd", "warningCodes": ["Odd", "Odder"]}, conditions=[condition("Ready", reason="Odd")],
            history=[{"reason": "Odd"}], lostDrivers=[{"reason": "Odd", "count": 1}], lostExecutors=[{"reason": "Odder", "count": 2}],
        )  # fmt: skip
        text = text_of(cache_of(job(odd, strategy={"type": "Odd"})))

        assert "odd" not in text.lower().replace("lower bound", "")
        assert 'strategy="Other",phase="Other",step="Other",reason="Other"' in text
        assert 'code="Other"} 1\n' in text
        assert 'executors_lost_total{namespace="shop",name="orders",strategy="Other",reason="Other"} 2\n' in text

    def test_a_job_without_a_strategy_has_the_default_one(self):
        """The API server sets it, but an earlier kind may not."""
        assert f'strategy="{Strategy().type}"' in text_of(cache_of(job(running(), strategy=None)))


class TestOddObjects:
    """Any field of a status can be edited, and names may come from a broken server."""

    @pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", '"} 1\nfake{x="', "ü{}", "\\n", "\u2028"])
    def test_odd_text_in_a_label_is_escaped(self, name):
        """A label cannot end early, and so cannot add a sample."""
        families = list(text_string_to_metric_families(text_of(cache_of(job(running(), name=name)))))
        names = {sample.labels["name"] for family in families for sample in family.samples if sample.labels}

        assert names == {name}
        assert all(family.name.startswith("backfill_job_") for family in families)

    @given(
        status=st.dictionaries(
            st.sampled_from(["progress", "attempt", "control", "conditions", "history", "receipt", "lostDrivers", "phase"]),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("9999-99-99T99:99:99Z"),
                lambda inner: st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["eta", "percent", "reason", "count", "step", "readyTime", "state", "type", "warningCodes", "mismatches"]),
                    inner, max_size=5,
                ),
                max_leaves=8,
            ),
        )
    )  # fmt: skip
    def test_any_status_gives_valid_text(self, status):
        """Otherwise one object would end the monitoring of all."""
        assert all(value >= 0 for value in series(cache_of(job(status))).values())

    def test_reasons_are_those_of_the_api(self):
        """A label with a new reason needs no change here."""
        for reason in REASONS:
            assert f'reason="{reason}"' in text_of(
                cache_of(job(running(conditions=[condition("Ready", reason=reason)])))
            )


class TestTheSize:
    def test_thousand_running_jobs_take_less_than_a_tenth_of_the_limit(self):
        """Ten thousand may take 1 MB; tests/benchmarks/job_metrics.py measures them, their time and their memory."""
        cache = cache_of(*map(running_job, range(1000)))
        jobs = JobMetrics(cache, 1000, leads=lambda: True, now_ms=lambda: NOW_MS)
        packed = Metrics(cache.phases, jobs.chunks).exposition()

        assert gzip.decompress(packed).decode().endswith(text_of(cache, limit=1000))
        assert len(packed) < 100_000
