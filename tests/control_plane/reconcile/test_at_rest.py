"""Finished Backfills without pending actions: the operator stores a small record of each, and reads the object when needed."""

import time

import pytest
from support.operators.rig import Rig

from backfill_api.names import ATTEMPT_LABEL, BACKFILL_LABEL, DRAIN_FINALIZER, RESTART_ANNOTATION, ROLE_LABEL
from backfill_api.timestamps import ms_of

KEY = ("shop", "orders")
MISMATCH = 40
TTLS_S = (5, 20, 80)
"""Times to live, one after the other: on a busy machine, the shortest one ends before the operator rests."""


def rests(rig):
    return rig.operator.cache.rest(KEY) is not None


def reads(rig):
    """Return the number of reads of the object."""
    return sum(
        1
        for request in rig.api.requests
        if (request.verb, request.plural, request.name) == ("get", "backfills", "orders")
    )


async def over(rig, code=0, **spec):
    """Let a job end and come to rest."""
    rig.create(**({"retainDriver": "Never"} | spec))
    await rig.until_holds("Running")
    rig.kubelet.finish(rig.driver(), exit_code=code)
    await rig.until_phase("Succeeded" if code == 0 else "Failed")
    # From its last write on, the operator stores only a small record of it, but still handles its remaining pods.
    await rig.until(lambda: (rests(rig) and rig.pods() == {}) or rig.get() is None)


class TestAtRest:
    @pytest.mark.parametrize("restarted", [False, True], ids=["by who saw its end", "by the next operator"])
    async def test_backfill_at_rest_is_deleted_in_its_time(self, restarted):
        """It is read once for that; before, there are no requests."""
        for ttl_s in TTLS_S:
            async with Rig(request_timeout_seconds=60) as rig:
                before = await self.rested(rig, ttl_s, restarted=restarted)
                if before is None:
                    continue
                await rig.until(lambda rig=rig: rig.store.objects["backfills"] == {}, within_s=2 * ttl_s)
                assert reads(rig) == before + 1
                break
        else:
            pytest.fail(f"the operator does not rest within {TTLS_S[-1]} s")

    @staticmethod
    async def rested(rig, ttl_s, *, restarted):
        """Let a job end and rest; return the number of reads, or `None` if it rests only shortly before its deletion."""
        await over(rig, ttlSecondsAfterFinished=ttl_s)
        if restarted:
            rig.restart()
            await rig.until(lambda: rests(rig) or rig.get() is None)
        if rig.get() is None:
            return None
        deleted_s, before = ms_of(rig.status()["completionTime"]) / 1000 + ttl_s, reads(rig)
        if deleted_s - time.time() < 2:
            return None
        await rig.still(lambda: (reads(rig) == before and rests(rig)) or deleted_s - time.time() < 1, for_s=0.5)
        return before

    @pytest.mark.parametrize("restarted", [False, True], ids=["by who saw its end", "by the next operator"])
    @pytest.mark.parametrize("how", ["an edit", "an annotation"])
    async def test_failed_backfill_at_rest_resumes(self, restarted, how):
        """The event of the change contains the whole object."""
        async with Rig() as rig:
            await over(rig, MISMATCH)
            if restarted:
                rig.restart()
                await rig.until(lambda: rests(rig))
            if how == "an edit":
                rig.edit(backoffLimit=7)
            else:
                rig.annotate(**{RESTART_ANNOTATION: "now"})

            await rig.until_holds("Running")
            assert rig.attempt() == 2

    async def test_backfill_at_rest_is_deleted_on_request(self):
        """A finalizer that was added later is removed."""
        async with Rig() as rig:
            await over(rig)
            rig.store.patch("backfills", *KEY, {"metadata": {"finalizers": [DRAIN_FINALIZER]}})
            rig.delete()
            await rig.until(lambda: rig.store.objects["backfills"] == {})

    async def test_driver_of_a_backfill_at_rest_is_ended(self):
        """It belongs to this Backfill, and must not write any more."""
        async with Rig() as rig:
            await over(rig)
            uid = rig.uid()
            labels = {BACKFILL_LABEL: "orders", ATTEMPT_LABEL: "1", ROLE_LABEL: "driver"}
            owner = {
                "apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "name": "orders", "uid": uid, "controller": True,
            }  # fmt: skip
            metadata = {"name": "orders-1-driver", "labels": labels, "ownerReferences": [owner]}
            rig.store.create(
                "pods",
                "shop",
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": metadata,
                    "spec": {"containers": [{"name": "driver", "image": "x"}]},
                },
            )

            await rig.until(lambda: rig.pods() == {})
            assert rig.phase() == "Succeeded"

    async def test_edited_status_is_corrected(self):
        """It differs from the decision, so the Backfill is not at rest."""
        async with Rig() as rig:
            await over(rig)
            ready = next(condition for condition in rig.status()["conditions"] if condition["type"] == "Ready")
            wrong = [
                condition if condition["type"] != "Ready" else ready | {"status": "False"}
                for condition in rig.status()["conditions"]
            ]
            rig.store.patch("backfills", *KEY, {"status": {"conditions": wrong}}, subresource="status")

            await rig.until(lambda: rig.condition("Ready")[0] == "True")
            await rig.until(lambda: rests(rig))

    async def test_status_edited_without_an_operator_is_corrected(self):
        """A new operator finds the edited status, without an event of the change."""
        async with Rig() as rig:
            await over(rig)
            await rig.running.stop()
            wrong = [
                condition | {"status": "False"} if condition["type"] == "Ready" else condition
                for condition in rig.status()["conditions"]
            ]
            rig.store.patch(
                "backfills", *KEY, {"status": {"conditions": wrong, "phase": "Failed"}}, subresource="status"
            )
            rig.start()

            await rig.until(lambda: (rig.phase(), rig.condition("Ready")[0]) == ("Succeeded", "True"))
            await rig.until(lambda: rests(rig))

    async def test_failed_backfill_is_listed_as_a_writer_until_it_is_deleted(self):
        """It may be resumed. A new operator that never stored the whole object lists it too."""
        async with Rig() as rig:
            await over(rig, MISMATCH)
            rig.restart()
            await rig.until(lambda: rests(rig))
            rig.create("second", suspend=True)
            await rig.until(lambda: rig.condition("SharedTarget", "second") == ("True", "SharedTarget"))
            assert rests(rig)

            rig.delete()
            await rig.until(lambda: rig.condition("SharedTarget", "second") is None)
