"""`kubectl backfill ui` shows the Backfills of a cluster and commands them, with the user's rights."""

import asyncio
import threading
from dataclasses import dataclass, field
from datetime import datetime

from support.cluster.fake_api import Fault
from support.operators.plugin import Plugin
from support.operators.rig import Rig
from support.page.serving import serving

from backfill_api.names import WATCHED_ANNOTATION
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.cluster.kubeconfig import log_in
from backfill_kubectl.commands.page.cluster_jobs import ClusterJobs
from backfill_page.seen import JobSeen, Pause, Resume, SourceError, Throttle, Verify

WAIT_S = 30
WATCHES = 3
"""Open watches of an operator: both kinds, and the ConfigMap that pauses all jobs."""


def source_of(rig, folder, *, everywhere=False):
    """Return the source of the page of a user."""
    login = log_in(Plugin(rig, folder).kubeconfig, None, rig.namespace)
    return ClusterJobs(ApiServer(login), rig.namespace, everywhere=everywhere)


@dataclass
class Followed:
    """Values of a watch, which a thread reads."""

    watch: object
    values: list = field(default_factory=list)
    error: SourceError | None = None

    def __post_init__(self):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            for value in self.watch(self.over):
                self.values.append(value)
        except SourceError as error:
            self.error = error

    async def close(self):
        """End the watch."""
        self.over.set()
        await asyncio.to_thread(self.thread.join, WAIT_S)
        assert not self.thread.is_alive()


class TestTheList:
    """One watch for all Backfills: they are read once, then only changes."""

    async def test_list_follows_each_change(self, rigs, tmp_path):
        """A new Backfill, its phases, and its deletion."""
        async with rigs() as rig:
            rig.create("orders")
            await rig.until_holds("Running", "orders")
            source = source_of(rig, tmp_path)
            listed = await asyncio.to_thread(source.jobs)
            followed = Followed(source.watch_jobs)
            await rig.until(lambda: followed.values)
            rig.create("items", suspend=True, target={"type": "Delta", "delta": {"path": "/data/c"}})
            await rig.until(lambda: {row.key: row.group for row in followed.values[-1].rows} == {
                f"{rig.namespace}/orders": "runs", f"{rig.namespace}/items": "paused",
            })  # fmt: skip
            await followed.close()

            assert [(row.key, row.state) for row in listed.rows] == [(f"{rig.namespace}/orders", "Running")]
            assert source.place.endswith(f", namespace {rig.namespace}")

    async def test_user_who_may_not_list_gets_the_verb_and_the_resource(self, tmp_path):
        """In the page and in its stream."""
        async with Rig(start=False) as rig:
            rig.api.faults.append(
                Fault("answer", verb="list", plural="backfills", status=403, reason="Forbidden", times=99)
            )
            source = source_of(rig, tmp_path)
            with serving(source) as page:
                await asyncio.to_thread(page.open)
                answer = await asyncio.to_thread(page.get, "/")
            followed = Followed(source.watch_jobs)
            await rig.until(lambda: followed.error)
            await followed.close()

            assert answer.status == 502
            assert "you may not list backfills.backfill.dev in namespace shop" in answer.text
            assert "you may not list backfills.backfill.dev in namespace shop" in str(followed.error)

    async def test_list_survives_a_restart_of_the_api_server(self, tmp_path):
        """The watch is opened again after another list."""
        async with Rig() as rig:
            rig.create("orders")
            await rig.until_holds("Running", "orders")
            followed = Followed(source_of(rig, tmp_path).watch_jobs)
            await rig.until(lambda: followed.values and rig.api.open_watches > WATCHES)
            rig.api.break_watches()
            rig.create("items", suspend=True, target={"type": "Delta", "delta": {"path": "/data/c"}})
            await rig.until(lambda: len(followed.values[-1].rows) == 2)
            await followed.close()

            assert followed.error is None


class TestOneJob:
    """The page shows what `get NAME -w` shows."""

    async def test_watched_job_asks_the_operator_for_frequent_progress(self, rigs, tmp_path):
        """By the annotation that the plug-in renews."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            source = source_of(rig, tmp_path)
            followed = Followed(lambda over: source.watch_job(f"{rig.namespace}/orders", over))
            await rig.until(lambda: WATCHED_ANNOTATION in rig.get()["metadata"].get("annotations", {}))
            await rig.until(lambda: "orders-1-driver" in str([seen.frame.tree for seen in followed.values]))
            await followed.close()

            assert datetime.fromisoformat(rig.get()["metadata"]["annotations"][WATCHED_ANNOTATION])
            seen = followed.values[-1]
            assert isinstance(seen, JobSeen)
            assert (seen.frame.phase, seen.ended, seen.forbidden, seen.problem) == ("Running", None, "", "")

    async def test_missing_and_malformed_names_are_no_jobs(self, tmp_path):
        """A link may be old, or made up."""
        async with Rig(start=False) as rig:
            source = source_of(rig, tmp_path)

            assert [await asyncio.to_thread(source.job, key) for key in ("shop/none", "../../etc", "", "a/b/c")] == [
                None
            ] * 4

    async def test_failed_job_has_its_reason_and_the_next_commands(self, tmp_path):
        """The commands are those of the plug-in."""
        async with Rig() as rig:
            rig.create(backoffLimit=0)
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver(), exit_code=40)
            await rig.until_phase("Failed")
            seen = await asyncio.to_thread(source_of(rig, tmp_path).job, "shop/orders")

            assert (seen.ended.outcome, seen.ended.good) == ("Failed", False)
            assert seen.ended.reason
            assert seen.ended.start
            assert [following.command for following in seen.ended.next_commands] == [
                "kubectl backfill logs shop/orders", "kubectl backfill report shop/orders", "kubectl backfill retry shop/orders",
            ]  # fmt: skip


class TestActions:
    """An action is a write with the user's rights, and waits for the driver."""

    async def test_pause_resume_and_throttle_are_acknowledged(self, rigs, tmp_path):
        """The answer is that of the command line."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            source, key = source_of(rig, tmp_path), f"{rig.namespace}/orders"

            paused = await asyncio.to_thread(source.act, key, Pause())
            state = rig.double().progress.paused
            resumed = await asyncio.to_thread(source.act, key, Resume())
            limited = await asyncio.to_thread(source.act, key, Throttle(50_000, 1800))

            assert paused.ok, paused
            assert paused.text.startswith(f"pause: {key}: paused at ")
            assert "Acknowledged at epoch" in paused.text
            assert state == "History"
            assert (resumed.ok, rig.double().progress.paused) == (True, None)
            assert limited.ok, limited
            assert rig.double().progress.throttle_rows_per_second == 50_000
            assert "Undo: kubectl backfill throttle orders none" in limited.text

    async def test_there_is_no_button_without_a_switch(self, tmp_path):
        """An operator of an earlier chart has no ConfigMap."""
        async with Rig(start=False) as rig:
            source = source_of(rig, tmp_path)

            assert (await asyncio.to_thread(source.jobs)).switch is None

    async def test_verify_is_recorded_and_its_receipt_follows(self, tmp_path):
        """A comparison may take longer than a form."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            answer = await asyncio.to_thread(source_of(rig, tmp_path).act, "shop/orders", Verify())
            await rig.until(lambda: rig.get()["status"].get("receipt"))

            assert answer.ok, answer

    async def test_action_that_the_server_forbids_names_the_verb(self, tmp_path):
        """The rights may have changed since the page was drawn."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.api.faults.append(
                Fault(
                    "answer", verb="patch", plural="backfills", status=403, reason="Forbidden", user="reader", times=99
                )
            )
            plugin = Plugin(rig, tmp_path)
            plugin.kubeconfig.write_text(plugin.kubeconfig.read_text().replace("token: operator", "token: reader"))
            source = ClusterJobs(ApiServer(log_in(plugin.kubeconfig, None, "shop")), "shop", everywhere=False)
            answer = await asyncio.to_thread(source.act, "shop/orders", Pause())
            followed = Followed(lambda over: source.watch_job("shop/orders", over))
            await rig.until(lambda: followed.values and followed.values[-1].problem)
            await followed.close()

            assert not answer.ok
            assert "you may not patch backfills.backfill.dev orders in namespace shop" in answer.text
            assert "progress every 10 s: you may not patch" in followed.values[-1].problem

    async def test_silent_operator_is_no_success(self, tmp_path, monkeypatch):
        """The change is recorded, and no driver has confirmed it."""
        monkeypatch.setattr("backfill_kubectl.commands.page.cluster_jobs.ACK_WAIT_S", 0.5)
        async with Rig(start=False) as rig:
            rig.create()
            await rig.until(rig.get)
            answer = await asyncio.to_thread(source_of(rig, tmp_path).act, "shop/orders", Pause())

            assert not answer.ok
            assert "has not acknowledged the change in 0.5 s: no operator has seen this Backfill" in answer.text
