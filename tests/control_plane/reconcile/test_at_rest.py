"""Backfills that are over and tidied: the operator keeps a few words of each, and finds the rest when there is something to do."""

import pytest
from support.operators.rig import Rig

from backfill_api.names import ATTEMPT_LABEL, BACKFILL_LABEL, DRAIN_FINALIZER, RESTART_ANNOTATION, ROLE_LABEL

KEY = ("shop", "orders")
MISMATCH = 40


def rests(rig):
    return rig.operator.cache.rest(KEY) is not None


def reads(rig):
    """Return how often the object itself was read."""
    return sum(1 for one in rig.api.requests if (one.verb, one.plural, one.name) == ("get", "backfills", "orders"))


async def over(rig, code=0, **spec):
    """Have a job end and come to rest."""
    rig.create(**({"retainDriver": "Never"} | spec))
    await rig.until_holds("Running")
    rig.kubelet.finish(rig.driver(), exit_code=code)
    await rig.until_phase("Succeeded" if code == 0 else "Failed")
    # The operator keeps no more of it from its last write on; what is left of its pods is looked after nevertheless.
    await rig.until(lambda: rests(rig) and rig.pods() == {})


class TestAtRest:
    @pytest.mark.parametrize("restarted", [False, True], ids=["by who saw its end", "by the next operator"])
    async def test_one_is_deleted_in_its_time(self, restarted):
        """Read anew once, for that; until then nothing is asked for."""
        async with Rig() as rig:
            await over(rig, ttlSecondsAfterFinished=4)
            if restarted:
                rig.restart()
                await rig.until(lambda: rests(rig))
            before = reads(rig)
            await rig.still(lambda: reads(rig) == before and rests(rig), for_s=0.5)

            await rig.until(lambda: rig.store.objects["backfills"] == {})
            assert reads(rig) == before + 1

    @pytest.mark.parametrize("restarted", [False, True], ids=["by who saw its end", "by the next operator"])
    @pytest.mark.parametrize("how", ["an edit", "an annotation"])
    async def test_a_failed_one_is_taken_up_again(self, restarted, how):
        """The change brings all of it along."""
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

    async def test_one_is_deleted_when_a_user_asks(self):
        """With a finalizer that came later it is let go, too."""
        async with Rig() as rig:
            await over(rig)
            rig.store.patch("backfills", *KEY, {"metadata": {"finalizers": [DRAIN_FINALIZER]}})
            rig.delete()
            await rig.until(lambda: rig.store.objects["backfills"] == {})

    async def test_a_driver_that_appears_is_ended(self):
        """It is of this Backfill, and nothing is to be written any more."""
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

    async def test_a_status_that_a_person_edits_is_put_right(self):
        """What it says then is not what a decision would say, so it is not at rest."""
        async with Rig() as rig:
            await over(rig)
            ready = next(one for one in rig.status()["conditions"] if one["type"] == "Ready")
            wrong = [
                one if one["type"] != "Ready" else ready | {"status": "False"} for one in rig.status()["conditions"]
            ]
            rig.store.patch("backfills", *KEY, {"status": {"conditions": wrong}}, subresource="status")

            await rig.until(lambda: rig.condition("Ready")[0] == "True")
            await rig.until(lambda: rests(rig))

    async def test_a_status_that_a_person_edits_without_an_operator_is_put_right(self):
        """The operator that comes finds it as it is, and was told of no change."""
        async with Rig() as rig:
            await over(rig)
            await rig.running.stop()
            wrong = [one | {"status": "False"} if one["type"] == "Ready" else one for one in rig.status()["conditions"]]
            rig.store.patch(
                "backfills", *KEY, {"status": {"conditions": wrong, "phase": "Failed"}}, subresource="status"
            )
            rig.start()

            await rig.until(lambda: (rig.phase(), rig.condition("Ready")[0]) == ("Succeeded", "True"))
            await rig.until(lambda: rests(rig))

    async def test_a_failed_one_is_named_beside_who_writes_its_target_until_it_is_gone(self):
        """It may be taken up again, also where the operator that comes never read all of it."""
        async with Rig() as rig:
            await over(rig, MISMATCH)
            rig.restart()
            await rig.until(lambda: rests(rig))
            rig.create("second", suspend=True)
            await rig.until(lambda: rig.condition("SharedTarget", "second") == ("True", "SharedTarget"))
            assert rests(rig)

            rig.delete()
            await rig.until(lambda: rig.condition("SharedTarget", "second") is None)
