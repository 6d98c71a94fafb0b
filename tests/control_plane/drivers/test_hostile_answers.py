"""Invalid values from a driver, and refusals of a server, do not prevent commands and deletions."""

import json

import pytest
from support.cluster.fake_store import Refusal
from support.crd.crd_specs import CRD
from support.operators.rig import Rig

from backfill_api.names import DRAIN_FINALIZER
from backfill_api.status.progress import ProgressSummary
from backfill_api.status.status import BackfillStatus
from backfill_operator.informer.parse import StatusUnreadableError, observation_of, status_of

STATUS = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
ENDLESS = {"rows_done": 10**30, "rows_total": 2**63, "revision": 2**63 - 1, "lag_seconds": -(10**19)}


def out_of_range(schema, value, path="status"):
    """Yield changes of a value that a structural schema forbids, as far as numbers and lengths are concerned."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not schema.get("minimum", -(2**63)) <= value <= schema.get("maximum", 2**63 - 1):
            yield path
    elif isinstance(value, str) and len(value) > schema.get("maxLength", 10**9):
        yield path
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from out_of_range(schema["items"], item, f"{path}[{number}]")
    elif isinstance(value, dict):
        for name, element in value.items():
            yield from out_of_range(schema.get("properties", {}).get(name, {}), element, f"{path}.{name}")


def refuses_what_the_schema_does(plural, status):
    """Check a status write as the server does."""
    if plural == "backfills" and (wrong := list(out_of_range(STATUS, status))):
        raise Refusal(422, "Invalid", f"{wrong[0]}: Invalid value")
    return status


def with_attempt(**more):
    attempt = {"number": 1, "kind": "Run", "state": "Created", "podName": "orders-1-driver", "podUid": "pod-1"}
    return {"observedGeneration": 1, "attempts": 1, "attempt": attempt} | more


class TestADriverWithWordsOutOfRange:
    async def test_driver_with_invalid_numbers_is_suspended_and_deleted(self):
        """10^30 rows made every status write a 422, and the Backfill could not be deleted any more."""
        async with Rig() as rig:
            rig.store.prune = refuses_what_the_schema_does
            rig.create()
            await rig.until_holds("Running")
            double = rig.double()
            double.progress = double.progress.model_copy(update=ENDLESS)
            rig.edit(suspend=True)
            await rig.until_holds("Suspended", within_s=20)
            rig.edit(suspend=False)
            await rig.until(lambda: rig.double(attempt=2), 20)
            double = rig.double(attempt=2)
            double.progress = double.progress.model_copy(update=ENDLESS)
            rig.delete()
            await rig.until(lambda: rig.get() is None, 20)


class TestAServerThatRefusesWhatADriverReports:
    async def test_status_is_written_without_a_refused_report(self):
        """Phase, attempt and commands are the operator's own values."""

        def no_progress(_plural, status):
            if "progress" in status:
                raise Refusal(422, "Invalid", "status.progress: Invalid value")
            return status

        async with Rig() as rig:
            rig.store.prune = no_progress
            rig.create()
            await rig.until_holds("Running")
            rig.edit(desiredState="Paused")
            await rig.until_holds("Paused")
            await rig.until(lambda: "StatusRefused" in rig.events())
            rig.delete()
            await rig.until(lambda: rig.get() is None)


class TestADeletion:
    async def test_deletion_proceeds_despite_refused_status_writes(self):
        """No driver is launched for a deleted object, so no record is needed."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")

            def nothing(plural, status):
                if plural == "backfills":
                    raise Refusal(422, "Invalid", "status: Invalid value")
                return status

            rig.store.prune = nothing
            rig.delete()
            await rig.until(lambda: rig.get() is None and rig.pods() == {}, 20)

    async def test_deletion_proceeds_under_an_older_crd(self):
        """Fields that a rolled-back CRD drops are reported, and do not affect other Backfills."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.store.prune = lambda plural, status: (
                {k: v for k, v in status.items() if k != "control"} if plural == "backfills" else status
            )
            rig.delete()
            await rig.until(lambda: rig.get() is None and rig.pods() == {}, 20)

    async def test_deletion_proceeds_with_an_unreadable_status(self):
        """After a rollback of the operator or an edit, the driver is found by its owner and drained, and the object is deleted."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            await rig.running.stop()
            rig.store.patch(
                "backfills",
                rig.namespace,
                "orders",
                {"status": {"attempt": {"state": "Dreaming"}}},
                subresource="status",
            )
            rig.delete()
            rig.start()
            await rig.until(lambda: rig.get() is None and rig.pods() == {}, 20)


class TestAStatusOfALaterVersion:
    @pytest.mark.parametrize(
        ("status", "left"),
        [
            ({"phase": "Dreaming"}, {}),
            ({"progress": {"rowsDone": -1}}, {}),
            ({"progress": {"rowsDone": 10**30}, "plan": "none"}, {}),
            ({"receipt": {"rows": 5}}, {}),
            ({"conditions": [{"type": "Ready", "status": "Perhaps", "reason": "A", "lastTransitionTime": "x"}]}, {}),
            ({"history": [{"number": 1, "reason": "Stopped"}, {"number": "x"}]}, {"history": [{"number": 1, "reason": "Stopped"}]}),
            ({"control": {"desiredRevision": 4, "pending": [{"revision": 4, "command": {"type": "Dance"}}]}}, {"control": {"desiredRevision": 4}}),
            ({"startTime": 7, "failures": 2}, {"failures": 2}),
            ({"later": {"a": 1}}, {}),
        ],
    )  # fmt: skip
    def test_status_is_read_without_unknown_values(self, status, left):
        """Unknown values count as not observed: a newer operator was rolled back."""
        read = status_of({"status": with_attempt(**status)})

        assert read == BackfillStatus.model_validate(with_attempt(**left))

    def test_attempt_with_an_unknown_stop_reason_is_kept(self):
        """It ends, and its own report determines the result."""
        status = with_attempt()
        status["attempt"] |= {"kind": "Rehearsal", "stop": {"reason": "Bored", "time": "2026-01-01T00:00:00Z"}}

        assert status_of({"status": status}) == BackfillStatus.model_validate(with_attempt())

    @pytest.mark.parametrize(
        "status",
        [
            {"attempts": "many"},
            {"attempt": {"number": 1, "state": "Dreaming"}},
            {"attempt": {"state": "Created"}},
            {"attempt": 7},
            {"conditions": [{"type": "Complete", "status": "Perhaps", "reason": "A", "lastTransitionTime": "x"}]},
        ],
    )
    def test_status_is_rejected_if_a_launch_depends_on_an_unknown_value(self, status):
        """Otherwise a second driver would be created, or a finished job would start again."""
        raw = {"metadata": {"name": "orders", "finalizers": [DRAIN_FINALIZER]}, "status": with_attempt(**status)}
        with pytest.raises(StatusUnreadableError):
            observation_of(raw, ())

        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        assert observation_of(raw, ()).status == BackfillStatus()


def test_every_number_of_a_status_has_a_range():
    """The CRD has the same range, so that an unreadable number cannot be stored."""

    def numbers(schema, path):
        if schema.get("type") == "integer":
            yield path, schema
        for name, below in schema.get("properties", {}).items():
            yield from numbers(below, f"{path}.{name}")
        if "items" in schema:
            yield from numbers(schema["items"], f"{path}[]")

    numbers_by_path = dict(numbers(STATUS, "status"))
    assert len(numbers_by_path) > 30
    assert [path for path, value in numbers_by_path.items() if "minimum" not in value or "maximum" not in value] == []
    # Above, a tool that reads JSON numbers like Go and JavaScript sees another number than the CRD.
    assert [
        path for path, value in numbers_by_path.items() if abs(value["minimum"]) >= 2**53 or value["maximum"] >= 2**53
    ] == []
    assert json.dumps(ProgressSummary(rows_done=2**53 - 1).model_dump())
