"""The Secret of an attempt: it is used only if the status has the hash of its token, whichever operator created it."""

from base64 import b64encode

import pytest
from support.cluster.fake_api import Fault
from support.operators.rig import NAMESPACE, Rig

from backfill_api.names import API_VERSION, KIND
from backfill_api.status.status import TOKEN_HASHES_MAX
from backfill_core.lifecycle.inputs.token_hash import hash_of
from backfill_operator.manifests.secret import token_of
from backfill_operator.reconcile.soft_state import SoftState


def owned_secret(rig, *, token):
    """Return the Secret of the first attempt, as the owner of the Backfill may write it."""
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": "orders", "uid": rig.uid(), "controller": True}
    metadata = {"name": rig.driver()[1], "ownerReferences": [owner]}
    return {"metadata": metadata, "data": {"token": b64encode(token.encode()).decode()}}


class TestTheTokenOfASecret:
    def test_token_is_kept_for_one_attempt(self):
        """A repeated try finds the Secret of the previous try."""
        memory = SoftState("uid")
        first = memory.token_hash(None)
        memory.token_of = 1
        assert [memory.token_hash(1), memory.token_hash(1)] == [first, first]

    @pytest.mark.parametrize("planned", [None, 2])
    def test_token_is_not_reused_for_another_attempt(self, planned):
        """A reader of the first Secret could create the second one in advance."""
        memory = SoftState("uid")
        first = memory.token_hash(None)
        memory.token_of = 1
        second = memory.token_hash(planned)
        assert second != first
        assert memory.token_hash(planned) == second

    @pytest.mark.parametrize("data", [None, {}, {"token": 7}, {"token": "%"}, {"token": "/w=="}])
    def test_token_of_an_invalid_secret_is_none(self, data):
        """The creator of the Secret may have written any value."""
        assert token_of({"data": data}) is None


class TestTheSecretThatALaunchFinds:
    async def test_secret_that_a_user_made_in_our_name_is_refused(self):
        """A user who may create Secrets may set our owner reference on one, and would command the driver with its token."""
        async with Rig() as rig:
            rig.create(suspend=True)
            await rig.until_holds("Suspended")
            forged = rig.store.create("secrets", NAMESPACE, owned_secret(rig, token="known"))
            rig.edit(suspend=False)
            await rig.until(lambda: rig.condition("Stalled") == ("True", "NameCollision"))

            assert rig.pods() == {}
            assert rig.store.get("secrets", *rig.driver()) == forged
            rig.store.delete("secrets", *rig.driver())
            rig.edit(backoffLimit=5)
            await rig.until_holds("Running")
            assert rig.has_one_driver()

    @pytest.mark.parametrize("what", ["lose the request", "lose the answer"])
    async def test_secret_of_the_previous_operator_is_used(self, what):
        """That operator died between the Secret and the pod; the next one finds the hash in the status, and adds its own."""
        async with Rig() as rig:
            rig.api.faults.append(Fault(what, verb="create", plural="secrets", action=rig.kill))
            rig.create()
            await rig.until(lambda: not rig.running.alive)
            before = rig.store.objects["secrets"].get(rig.driver())
            rig.restart()
            await rig.until_holds("Running")

            after = rig.store.get("secrets", *rig.driver())
            assert before is None or after["metadata"]["uid"] == before["metadata"]["uid"]
            assert hash_of(token_of(after)) in rig.status()["attempt"]["tokenHashes"]
            assert rig.has_one_driver()

    async def test_secret_of_many_dead_operators_ago_does_not_stop_the_job(self):
        """The status keeps eight hashes; each of these operators records one, and dies before it creates the pod."""
        async with Rig() as rig:
            rig.create()
            for _ in range(TOKEN_HASHES_MAX + 2):
                rig.api.faults.append(Fault("lose the request", verb="create", plural="pods", action=rig.kill))
                await rig.until(lambda: not rig.running.alive)
                rig.restart()
            await rig.until_holds("Running")

            assert hash_of(token_of(rig.store.get("secrets", *rig.driver()))) in rig.status()["attempt"]["tokenHashes"]
            assert rig.has_one_driver()
            assert rig.attempt() == 1

    async def test_secret_of_an_earlier_version_is_used(self):
        """Its attempt is recorded without a hash, and its driver may be starting."""
        async with Rig(start=False) as rig:
            rig.create()
            rig.store.create("secrets", NAMESPACE, owned_secret(rig, token="of before"))
            planned = {"attempts": 1, "attempt": {"number": 1, "state": "Planned"}}
            rig.store.patch("backfills", *rig.driver()[:1], "orders", {"status": planned}, subresource="status")
            rig.start()
            await rig.until(lambda: rig.pods())

            assert rig.attempt() == 1
            assert "tokenHashes" not in rig.status()["attempt"]
