"""Limits of concurrent drivers: waiting Backfills, their order, and Backfills that are passed over."""

import math
from contextlib import suppress

from support.cluster.fake_api import Fault
from support.operators.finished import finished
from support.operators.rig import NAMESPACE, Rig

from backfill_api.status.ending import Ending
from backfill_api.status.procedure import ProcedureEnd
from backfill_operator.informer.cache import Cache
from backfill_operator.metrics import Metrics
from backfill_operator.reconcile.driver_slots import DriverSlots
from backfill_operator.reconcile.reconciler import Reconciler
from backfill_operator.settings import OperatorSettings

RELEASED = Ending(outcome="Complete", procedure=ProcedureEnd(kind="Close", end="Released"))
FAR = {"relist_min_seconds": 600, "relist_max_seconds": 600}
"""Full lists must not repair a wake-up that is missing."""

WOKEN_S = 30.0
"""Seconds within which a wake-up takes effect; without one, a waiting Backfill looks again after a minute."""


def target(path):
    return {"type": "Delta", "delta": {"path": path}}


def waits(rig, name):
    return rig.condition("Reconciling", name) == ("True", "DriversLimited")


async def line_up(rig, *names):
    """Start the first Backfill, and let the others wait for its slot in this order."""
    for name in names:
        rig.create(name, target=target(f"/data/{name}"))
        await rig.until(lambda name=name: rig.holds("Running", name) or waits(rig, name))
    assert [waits(rig, name) for name in names] == [False] + [True] * (len(names) - 1)


async def finish(rig, name):
    rig.kubelet.finish(rig.driver(name, rig.attempt(name)))
    await rig.until_phase("Succeeded", name)


class TestTheHeadOfTheLine:
    """It may be enqueued for each free slot, and the Backfills after it must not wait until its fault is corrected."""

    @staticmethod
    def spoil(rig, name, attempts="many"):
        rig.store.patch("backfills", NAMESPACE, name, {"status": {"attempts": attempts}}, subresource="status")

    async def test_head_of_the_line_is_passed_over_while_its_status_is_unreadable(self):
        """It was offered each free slot, used none, and no other Backfill was enqueued."""
        async with Rig(max_drivers=1, **FAR) as rig:
            await line_up(rig, "first", "head", "second", "third")
            self.spoil(rig, "head")
            await rig.until(lambda: "StatusUnreadable" in rig.events())
            await finish(rig, "first")
            await rig.until_holds("Running", "second", WOKEN_S)

            assert waits(rig, "third")

    async def test_head_of_the_line_keeps_its_place_until_its_status_is_readable(self):
        """The Backfill that has waited longest is first again, before later ones."""
        async with Rig(max_drivers=1, **FAR) as rig:
            await line_up(rig, "first", "head", "second", "third")
            self.spoil(rig, "head")
            await rig.until(lambda: "StatusUnreadable" in rig.events())
            await finish(rig, "first")
            await rig.until_holds("Running", "second", WOKEN_S)
            self.spoil(rig, "head", attempts=0)
            await rig.until(lambda: not rig.operator.slots.passed_over)
            await finish(rig, "second")
            await rig.until_holds("Running", "head", WOKEN_S)

            assert waits(rig, "third")

    async def test_head_of_the_line_is_passed_over_while_its_pods_are_forbidden(self):
        """If an API server refuses a request for one Backfill, the others must not wait."""
        async with Rig(max_drivers=1, **FAR) as rig:
            rig.create("head", target=target("/data/head"))
            await rig.until_holds("Running", "head")
            rig.create("first", target=target("/data/first"))
            await rig.until(lambda: waits(rig, "first"))
            rig.kubelet.kill(rig.driver("head"))
            await rig.until_holds("Running", "first")
            await rig.until(lambda: waits(rig, "head"))
            for name in ("second", "third"):
                rig.create(name, target=target(f"/data/{name}"))
                await rig.until(lambda name=name: waits(rig, name))
            fault = Fault("answer", verb="list", plural="pods", status=403, reason="Forbidden", times=math.inf)
            rig.api.faults.append(fault)
            await finish(rig, "first")
            await rig.until_holds("Running", "second", WOKEN_S)

            assert [seen for seen in rig.api.requests if (seen.verb, seen.plural, seen.status) == ("list", "pods", 403)]
            rig.api.faults.clear()
            await rig.until(lambda: not rig.operator.slots.passed_over)
            await finish(rig, "second")
            await rig.until_holds("Running", "head", WOKEN_S)
            assert waits(rig, "third")

    async def test_head_of_the_line_keeps_its_place_after_a_conflict(self):
        """A label that a user set during its turn sent it to the end of the line."""
        async with Rig(max_drivers=1, **FAR) as rig:
            await line_up(rig, "first", "head", "second", "third")
            conflict = Fault("answer", verb="patch", plural="backfills", name="head", status=409, reason="Conflict")
            rig.api.faults.append(conflict)
            await finish(rig, "first")
            await rig.until(lambda: conflict.times == 0)
            await rig.until(lambda: rig.holds("Running", "second") or rig.holds("Running", "head"))
            if rig.holds("Running", "second"):
                await rig.until(lambda: not rig.operator.slots.passed_over)
                await finish(rig, "second")
            await rig.until_holds("Running", "head", WOKEN_S)

            assert waits(rig, "third")


class Line:
    """Slots of Backfills that tests store like a watch, and whose reconciles they report."""

    def __init__(self, **limits):
        self.cache, self.woken, self.version = Cache(), [], 0
        self.slots = DriverSlots(self.cache, OperatorSettings(**limits), self.woken.append)

    def store(self, name, *, active=False):
        self.version += 1
        metadata = {"name": name, "namespace": NAMESPACE, "uid": name, "resourceVersion": str(self.version)}
        status = {"attempt": {"number": 1, "state": "Created"}} if active else {}
        self.cache.put_backfill({"metadata": metadata, "spec": {}, "status": status})
        return NAMESPACE, name

    def look(self, key, *, launches=False):
        """Reconcile a Backfill that needs a driver."""
        with self.slots.turn(key):
            if self.slots.no_room(key):
                self.slots.note(key, waits=True)
            else:
                self.slots.reserve(key)
            if launches:
                self.store(key[1], active=True)
            self.slots.release(key)

    def offered(self):
        """Return the Backfills that are enqueued when a slot may be free."""
        self.woken.clear()
        self.slots.offer()
        return [name for _, name in self.woken]


class TestATurn:
    """The turn of a waiting Backfill, from the start of its reconcile to the result."""

    def lined_up(self, *names):
        line = Line(max_drivers=1)
        running = line.store("running", active=True)
        for name in names:
            line.look(line.store(name))
        line.cache.drop_backfill(running, "running")
        assert line.offered() == [names[0]]
        return line

    def test_turn_that_ends_without_a_decision_wakes_the_next(self):
        """This is true for any error: an unreadable status, a refusal of the API server, a bug of this project."""
        line = self.lined_up("a", "b", "c")
        line.woken.clear()
        with suppress(LookupError), line.slots.turn((NAMESPACE, "a")):
            raise LookupError

        assert line.woken == [(NAMESPACE, "b")]
        assert line.offered() == ["b"]

    def test_turn_that_ends_without_a_record_of_the_launch_wakes_the_next(self):
        """The slot is free until an attempt is recorded."""
        line = self.lined_up("a", "b", "c")
        line.woken.clear()
        line.look((NAMESPACE, "a"))

        assert (NAMESPACE, "b") in line.woken
        assert line.offered() == ["b"]

    def test_passed_over_backfill_is_the_first_again(self):
        """After its next decision, it precedes later Backfills."""
        line = self.lined_up("a", "b", "c")
        with suppress(LookupError), line.slots.turn((NAMESPACE, "a")):
            raise LookupError
        line.look((NAMESPACE, "b"), launches=True)
        line.look((NAMESPACE, "a"))
        line.cache.drop_backfill((NAMESPACE, "b"), "b")

        assert line.offered() == ["a"]

    def test_turn_that_ends_with_a_driver_ends_the_wait(self):
        """Otherwise a running Backfill would be offered slots."""
        line = self.lined_up("a", "b")
        line.look((NAMESPACE, "a"), launches=True)
        line.cache.drop_backfill((NAMESPACE, "a"), "a")

        assert line.offered() == ["b"]

    def test_failed_turn_outside_of_the_line_wakes_no_other(self):
        """Thousands of Backfills with unreadable statuses are reconciled repeatedly."""
        line = self.lined_up("a", "b")
        line.woken.clear()
        with suppress(LookupError), line.slots.turn(line.store("other")):
            raise LookupError

        assert line.woken == []

    def test_unusable_slot_is_not_offered_again(self):
        """The queue retries each of the Backfills anyway."""
        line = self.lined_up("a", "b")
        for name in ("a", "b"):
            with suppress(LookupError), line.slots.turn((NAMESPACE, name)):
                raise LookupError

        assert line.offered() == []


class TestAnEndThatAnotherProcessRecorded:
    async def test_its_slot_is_offered(self):
        """An earlier leader writes the end of a job after the new leader has read it. The next job waited for half an hour."""
        line = Line(max_drivers=1)
        running, ended = finished(1, version=1), finished(1, version=9)
        running["status"] |= {"phase": "Running", "attempt": {"number": 5, "state": "Created"}}
        line.cache.put_backfill(running)
        line.look(line.store("waiting"))
        reconcile = Reconciler(
            cluster=None, cache=line.cache, drivers=None, executor=None, events=None, metrics=Metrics(), slots=line.slots,
            workloads=None, enqueue=line.woken.append, now_ms=lambda: 0, pause_all=lambda: None,
        )  # fmt: skip
        assert line.woken == []
        line.cache.put_backfill(ended)
        await reconcile((NAMESPACE, "job-1"))

        assert (NAMESPACE, "waiting") in line.woken


class TestRoomForDrivers:
    async def test_slots_are_limited_and_given_in_order(self):
        """Two of ten Backfills run at the same time, never a third, and all finish."""
        names = [f"job-{number}" for number in range(6)]
        async with Rig(max_drivers=2) as rig:
            for name in names:
                rig.create(name)
            most, done = 0, set()
            while len(done) < len(names):
                await rig.until(lambda: any(name not in done and rig.holds("Running", name) for name in names), 20)
                alive = [pod_name for pod_name, phase in rig.pods().items() if phase in ("Pending", "Running")]
                most = max(most, len(alive))
                waiting = [name for name in names if rig.condition("Reconciling", name) == ("True", "DriversLimited")]
                assert len(waiting) + 2 <= len(names)
                name = next(name for name in names if name not in done and rig.holds("Running", name))
                rig.kubelet.finish(rig.driver(name))
                await rig.until_phase("Succeeded", name)
                done.add(name)
            assert most <= 2

    async def test_slots_are_offered_only_to_waiting_backfills(self):
        """A slot went from one suspended Backfill to the next, each with a reconcile, before a Backfill was launched."""
        resting = [f"rest-{number:02}" for number in range(60)]
        async with Rig(max_drivers=1, **FAR) as rig:
            rig.create("first")
            await rig.until_holds("Running", "first")
            for name in resting:
                rig.create(name, suspend=True, target=target(f"/data/{name}"))
            await rig.until(lambda: all(rig.phase(name) == "Suspended" for name in resting), 20)
            rig.create("next", target=target("/data/next"))
            await rig.until(lambda: rig.condition("Reconciling", "next") == ("True", "DriversLimited"))
            await rig.until(lambda: self.at_rest(rig))
            before = self.looks(rig)
            rig.kubelet.finish(rig.driver("first"))
            await rig.until_holds("Running", "next", 20)
            assert self.looks(rig) - before < len(resting)

    @staticmethod
    def at_rest(rig):
        """Return whether the operator has every current Backfill in its cache, and an empty queue."""
        operator = rig.operator
        cached = all(
            operator.cache.backfill(key)["metadata"]["resourceVersion"] == manifest["metadata"]["resourceVersion"]
            for key, manifest in list(rig.store.objects["backfills"].items())
        )
        return cached and not operator.queue.busy and not len(operator.queue)

    @staticmethod
    def looks(rig):
        """Return the number of reconciles."""
        return rig.operator.metrics.registry.get_sample_value("backfill_operator_reconcile_seconds_count")

    async def test_namespace_has_its_own_limit(self):
        """The message names the limit."""
        async with Rig(max_drivers_per_namespace=1) as rig:
            rig.create("a")
            await rig.until_holds("Running", "a")
            rig.create("b")
            await rig.until(lambda: rig.condition("Reconciling", "b") == ("True", "DriversLimited"))
            assert "in this namespace" in str(rig.status("b"))
            rig.delete("a")
            await rig.until_holds("Running", "b")
            assert {namespace for namespace, _ in rig.store.objects["backfills"]} == {NAMESPACE}


class TestDeletions:
    """A deleted Backfill needs a last driver, and drivers that follow their sources free no slot."""

    async def test_deleted_backfills_start_one_after_the_other_although_all_slots_are_taken(self):
        """The second one names its reason to wait, and the end of the first one starts it at once."""
        async with Rig(max_drivers=1, **FAR) as rig:
            for name in ("a", "b", "busy"):
                rig.create(name, target=target(f"/data/{name}"), deletionPolicy="Release")
                await rig.until_holds("Running", name)
                if name != "busy":
                    await finish(rig, name)
            rig.create("later", target=target("/data/later"))
            await rig.until(lambda: waits(rig, "later"))
            rig.delete("a")
            await rig.until(lambda: rig.driver("a", 2) in rig.kubelet.running, WOKEN_S)
            rig.delete("b")
            await rig.until(lambda: waits(rig, "b"))
            assert "the operator's limit of 1 running driver is reached" in rig.message("Reconciling", "b")
            assert "only 1 deleted Backfill of a namespace may have a driver" in rig.message("Reconciling", "b")

            rig.kubelet.finish(rig.driver("a", 2), exit_code=0, ending=RELEASED)
            await rig.until(lambda: rig.driver("b", 2) in rig.kubelet.running, WOKEN_S)
            rig.kubelet.finish(rig.driver("b", 2), exit_code=0, ending=RELEASED)
            await rig.until(lambda: rig.get("b") is None)

            assert waits(rig, "later")
            assert rig.holds("Running", "busy")

    def test_a_deletion_that_is_decided_takes_the_place_of_the_next_one(self):
        """Other Backfills decide before its attempt is recorded; another namespace has a place too."""
        line = Line(max_drivers=1)
        line.store("busy", active=True)
        first, second = line.store("first"), line.store("second")

        assert line.slots.no_room(first, deleted=True) == ""
        line.slots.reserve(first, deleted=True)
        assert line.slots.no_room(second, deleted=True)
        assert line.slots.no_room(("other", "third"), deleted=True) == ""
        assert line.slots.no_room(second)
