"""A store that rejects requests: wrong keys, keys without write access, a wrong clock. Each ends the job at once, with a hint."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from deltalake import DeltaTable
from support.stores.fault_proxy import TOO_SKEWED, Fault, faulty
from support.stores.minio import ACCESS_KEY, SECRET_KEY, for_spark
from support.stores.objects import Keys, Request, ask, objects_at
from support.stores.roles import READ_ONLY, all_but, assumed_role
from support.tables.jobs import write_yaml
from support.tables.oracle import seals, violations

from backfill_spark.jvm.gateway import java, java_context

OWNER = Keys(ACCESS_KEY, SECRET_KEY)
UNKNOWN = Keys("unheard-of", "a secret of no user")
WRONG = Keys(ACCESS_KEY, "a secret that is another one")
OF_NO_SESSION = Keys(ACCESS_KEY, SECRET_KEY, "a token of no session")
COPIED = {"strategy": {"type": "Replica"}, "source": {"key": []}}
DECODED = {"transform": {"select": ["id", "kind", "upper(note) AS note"], "where": "kind < 9"}}
ASKED_MAX = 12
"""Requests of a rejected job at most; a job that took the rejection for an outage would retry for minutes."""


@pytest.fixture
def bucket(request, spark, store):
    """Make a bucket of this test with separate keys and endpoint; return the URI of a table in it."""

    def make(keys, endpoint=None):
        name = f"b{abs(hash(request.node.nodeid))}"
        assert ask(store.endpoint, Request("PUT", f"/{name}"), OWNER).status == 200
        settings = {
            "access.key": keys.access,
            "secret.key": keys.secret,
            "session.token": keys.session,
            "endpoint": endpoint,
        }
        for setting, value in settings.items():
            if value:
                java_context(spark).hadoopConfiguration().set(f"fs.s3a.bucket.{name}.{setting}", value)
        return f"s3a://{name}/orders"

    return make


@pytest.fixture
def late(spark, store):
    """A proxy to the store whose clock is ten minutes ahead of ours, and whose limit is stricter."""
    with faulty(store.endpoint) as proxy:
        proxy.ahead = timedelta(minutes=10)
        yield proxy
    # Amazon's client keeps the learned clock offset for the whole JVM.
    java(spark).software.amazon.awssdk.core.SdkGlobalTime.setGlobalTimeOffset(0)


class TestWrongKeys:
    """They are a mistake, not an outage: the job fails at once, and names the variables to correct."""

    @pytest.mark.parametrize("keys", [UNKNOWN, WRONG, OF_NO_SESSION], ids=["unknown", "wrong", "sessionless"])
    @pytest.mark.parametrize("side", ["source", "target"])
    def test_wrong_keys_are_named_and_not_retried(self, orders, place, bucket, run, proxy, environment, keys, side):
        """Either the source or the target rejects them."""
        at = bucket(keys)
        proxy.refused.clear()

        outcome = run(at, place("there")) if side == "source" else run(orders, at)

        assert (outcome.outcome, outcome.reason) == ("Failed", "PermissionDenied")
        assert at in outcome.message
        assert "AWS_SECRET_ACCESS_KEY" in outcome.hint
        assert 0 < proxy.refused.total() < ASKED_MAX
        assert list(objects_at(at)) + list(objects_at(place("there"))) == []


class TestKeysThatMayOnlyRead:
    """A role's read-only keys are enough for a source; for a target they are rejected before anything is written."""

    def test_read_only_keys_are_rejected_for_a_target(self, orders, bucket, run, store, environment):
        """The trial of the store, which writes first, fails."""
        at = bucket(assumed_role(store.endpoint, OWNER, READ_ONLY))

        outcome = run(orders, at)

        assert (outcome.outcome, outcome.reason) == ("Failed", "PermissionDenied")
        assert "spec.target.delta.path" in outcome.message
        assert "Access Denied" in outcome.message
        assert "write access" in outcome.hint
        assert list(objects_at(at)) == []

    def test_a_withdrawn_right_fails_the_commit_and_the_next_run_continues(
        self, orders, place, run, proxy, environment, rows
    ):
        """The commit is rejected: the earlier commits are whole, and the next run continues from there."""
        version = f"{place('there').removeprefix('s3a:/')}/_delta_log/{2:020d}.json"
        denied = Fault("denied", "PUT", version, 1000)
        proxy.faults.append(denied)

        outcome = run(orders, place("there"), source={"version": 0})
        proxy.faults.remove(denied)

        assert (outcome.outcome, outcome.reason) == ("Failed", "PermissionDenied")
        assert 0 < denied.met < ASKED_MAX
        assert [
            violation for seal in seals(place("there")) for violation in violations(orders, place("there"), seal)
        ] == []
        assert run(orders, place("there"), source={"version": 0}).outcome == "Complete"
        assert rows(place("there")) == rows(orders)


class TestAFileThatMayNotBeRead:
    """A policy may deny one object of a table that is readable otherwise."""

    @pytest.mark.parametrize("spec", [COPIED, DECODED], ids=["copied", "decoded"])
    def test_an_unreadable_file_ends_the_job_and_is_named(
        self, orders, place, store, process, tmp_path, environment, spec
    ):
        """The committed rows are exact; a user who may read the file continues from there."""
        shut = sorted(DeltaTable(orders.replace("s3a:", "s3:")).file_uris())[0].removeprefix("s3://")
        file = write_yaml(
            tmp_path / "job.yaml", orders, place("there"), **spec, spark={"conf": for_spark(store.endpoint)}
        )

        def drive(keys):
            variables = {"ACCESS_KEY_ID": keys.access, "SECRET_ACCESS_KEY": keys.secret, "SESSION_TOKEN": keys.session}
            ended = process(file, **{f"AWS_{name}": value for name, value in variables.items() if value})
            return json.loads(ended.stdout.splitlines()[-1])

        ending = drive(assumed_role(store.endpoint, OWNER, all_but(shut)))

        assert (ending["outcome"], ending["reason"]) == ("Failed", "PermissionDenied")
        assert shut in ending["message"]
        assert ending["hint"] == "Grant this user access."
        assert [
            violation for seal in seals(place("there")) for violation in violations(orders, place("there"), seal)
        ] == []
        assert drive(OWNER)["outcome"] == "Complete"


class TestARequestThatTheStoreNeverAccepts:
    """A bucket of another region, a key of KMS, and a request that the store does not support: waiting changes nothing."""

    @pytest.mark.parametrize(
        ("status", "code", "hint"),
        [
            (400, "KMS.DisabledException", "fs.s3a.encryption.key"),
            (301, "PermanentRedirect", "fs.s3a.endpoint.region"),
        ],
    )
    def test_a_wrong_setting_ends_the_job_and_is_named(
        self, orders, place, run, proxy, environment, status, code, hint
    ):
        """Before, the job waited without counting a failure, as for a store that does not answer."""
        rejected = Fault("rejected", "PUT", f"{place('there').removeprefix('s3a:/')}/", 1000, status=status, code=code)
        proxy.faults.append(rejected)

        outcome = run(orders, place("there"))
        proxy.faults.remove(rejected)

        assert (outcome.outcome, outcome.reason) == ("Failed", "PermissionDenied")
        assert hint in outcome.hint
        assert 0 < rejected.met < ASKED_MAX

    def test_an_unknown_rejection_counts_a_failure(self, orders, place, run, proxy, environment):
        """The store answers, so the attempt must not be repeated without end."""
        rejected = Fault("rejected", "PUT", f"{place('there').removeprefix('s3a:/')}/", 1000, code="InvalidRequest")
        proxy.faults.append(rejected)

        outcome = run(orders, place("there"))
        proxy.faults.remove(rejected)

        assert (outcome.reason, outcome.error.outside) == ("Transient", False)
        assert "fs.s3a" in outcome.hint
        assert "InvalidRequest" in outcome.message

    def test_a_store_without_conditional_writes_is_rejected(self, orders, place, run, proxy, environment):
        """Some stores answer a condition with 501, and others ignore it."""
        rejected = Fault(
            "rejected", "PUT", f"{place('there').removeprefix('s3a:/')}/", 1000, status=501, code="NotImplemented"
        )
        proxy.faults.append(rejected)

        outcome = run(orders, place("there"))
        proxy.faults.remove(rejected)

        assert (outcome.outcome, outcome.reason) == ("Failed", "UnsupportedTargetFeature")
        assert "conditional writes" in outcome.hint
        assert 0 < rejected.met < ASKED_MAX


class TestAClock:
    """S3 accepts signatures that are at most 15 minutes old; Amazon's client learns the store's time from a rejection."""

    def test_the_real_server_accepts_ten_minutes_and_rejects_sixteen(self, store):
        """The server accepts ten minutes; its answer to sixteen is the one that these tests send."""
        request, now = Request("GET", "/here", {"list-type": "2"}), datetime.now(UTC)
        ten = ask(store.endpoint, request, OWNER, now - timedelta(minutes=10))
        sixteen = ask(store.endpoint, request, OWNER, now - timedelta(minutes=16))

        assert (ten.status, sixteen.status) == (200, 403)
        assert sixteen.body.partition(b"<Message>")[0] == TOO_SKEWED.partition(b"<Message>")[0]

    def test_the_client_corrects_a_clock_that_is_ten_minutes_late(self, orders, bucket, run, rows, late):
        """One request is rejected, and everything after it is signed with the store's time."""
        at = bucket(OWNER, late.endpoint)

        outcome = run(orders, at)

        assert (outcome.message, outcome.outcome) == ("", "Complete")
        assert late.refused == {"RequestTimeTooSkewed": 1}
        assert rows(at) == rows(orders)

    @pytest.mark.parametrize("side", ["source", "target"])
    def test_a_store_that_rejects_every_time_ends_the_job(self, orders, place, bucket, run, late, environment, side):
        """The message names the clock, and the job ends."""
        at = bucket(OWNER, late.endpoint)
        late.is_skewed = lambda _: True

        outcome = run(at, place("there")) if side == "source" else run(orders, at)

        assert (outcome.outcome, outcome.reason) == ("Failed", "PermissionDenied")
        assert "clock" in outcome.hint
        assert at in outcome.message
        assert list(objects_at(at)) == []
