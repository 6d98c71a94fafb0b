"""Room for so many drivers and no more: who waits, whose turn it is, and who is passed over."""

from contextlib import suppress

from support.cluster.fake_api import Fault
from support.operators.rig import NAMESPACE, Rig

from backfill_operator.informer.cache import Cache
from backfill_operator.reconcile.driver_slots import DriverSlots
from backfill_operator.settings import OperatorSettings

FAR = {"relist_min_seconds": 60, "relist_max_seconds": 60}
"""No list of everything may mend what a wake-up must."""


def target(path):
    return {"type": "Delta", "delta": {"path": path}}


def waits(rig, name):
    return rig.condition("Reconciling", name) == ("True", "DriversLimited")


async def line_up(rig, *names):
    """Have the first run, and the others wait for its place in this order."""
    for name in names:
        rig.create(name, target=target(f"/data/{name}"))
        await rig.until(lambda name=name: rig.holds("Running", name) or waits(rig, name))
    assert [waits(rig, name) for name in names] == [False] + [True] * (len(names) - 1)


async def finish(rig, name):
    rig.kubelet.finish(rig.driver(name, rig.attempt(name)))
    await rig.until_phase("Succeeded", name)


class TestTheHeadOfTheLine:
    """It may be looked at as often as there is room: those behind it must not wait until it is mended."""

    @staticmethod
    def spoil(rig, name, attempts="many"):
        rig.store.patch("backfills", NAMESPACE, name, {"status": {"attempts": attempts}}, subresource="status")

    async def test_is_passed_over_while_its_status_cannot_be_read(self):
        """It was offered each place that became free, took none, and no other one was woken."""
        async with Rig(max_drivers=1, **FAR) as rig:
            await line_up(rig, "first", "head", "second", "third")
            self.spoil(rig, "head")
            await rig.until(lambda: "StatusUnreadable" in rig.events())
            await finish(rig, "first")
            await rig.until_holds("Running", "second", 5)

            assert waits(rig, "third")

    async def test_keeps_its_place_for_when_it_can_be_read(self):
        """Who waited longest is first again, before those who came later."""
        async with Rig(max_drivers=1, **FAR) as rig:
            await line_up(rig, "first", "head", "second", "third")
            self.spoil(rig, "head")
            await rig.until(lambda: "StatusUnreadable" in rig.events())
            await finish(rig, "first")
            await rig.until_holds("Running", "second", 5)
            self.spoil(rig, "head", attempts=0)
            await rig.until(lambda: not rig.operator.slots.passed_over)
            await finish(rig, "second")
            await rig.until_holds("Running", "head", 5)

            assert waits(rig, "third")

    async def test_is_passed_over_while_its_pods_may_not_be_listed(self):
        """An API server that refuses what one Backfill needs must not hold up the others."""
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
            fault = Fault("answer", verb="list", plural="pods", status=403, reason="Forbidden", times=99)
            rig.api.faults.append(fault)
            await finish(rig, "first")
            await rig.until_holds("Running", "second", 5)

            assert fault.times < 99, "the head was looked at"
            rig.api.faults.clear()
            await rig.until(lambda: not rig.operator.slots.passed_over)
            await finish(rig, "second")
            await rig.until_holds("Running", "head", 5)
            assert waits(rig, "third")

    async def test_keeps_its_place_when_another_writer_was_quicker(self):
        """A label that a user sets at the wrong moment sent it to the end of the line."""
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
            await rig.until_holds("Running", "head", 5)

            assert waits(rig, "third")


class Line:
    """The slots of Backfills that tests store as the watch would, and whose reconciles they tell of."""

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
        """Look at a Backfill that wants a driver."""
        with self.slots.turn(key):
            if self.slots.no_room(key):
                self.slots.note(key, waits=True)
            else:
                self.slots.reserve(key)
            if launches:
                self.store(key[1], active=True)
            self.slots.release(key)

    def offered(self):
        """Return who is woken when a place may be free."""
        self.woken.clear()
        self.slots.offer()
        return [name for _, name in self.woken]


class TestATurn:
    """Of one Backfill in the line, from the look at it to what came of the look."""

    def lined_up(self, *names):
        line = Line(max_drivers=1)
        running = line.store("running", active=True)
        for name in names:
            line.look(line.store(name))
        line.cache.drop_backfill(running, "running")
        assert line.offered() == [names[0]]
        return line

    def test_that_ends_without_a_decision_wakes_the_next(self):
        """Whatever the error is: a status that cannot be read, an API server that refuses, a mistake of ours."""
        line = self.lined_up("a", "b", "c")
        line.woken.clear()
        with suppress(LookupError), line.slots.turn((NAMESPACE, "a")):
            raise LookupError

        assert line.woken == [(NAMESPACE, "b")]
        assert line.offered() == ["b"]

    def test_that_ends_without_a_record_of_the_launch_wakes_the_next(self):
        """The place is free as long as no attempt is on record."""
        line = self.lined_up("a", "b", "c")
        line.woken.clear()
        line.look((NAMESPACE, "a"))

        assert (NAMESPACE, "b") in line.woken
        assert line.offered() == ["b"]

    def test_of_one_that_was_passed_over_is_the_first_again(self):
        """Once it can be decided about, it is before those who came later."""
        line = self.lined_up("a", "b", "c")
        with suppress(LookupError), line.slots.turn((NAMESPACE, "a")):
            raise LookupError
        line.look((NAMESPACE, "b"), launches=True)
        line.look((NAMESPACE, "a"))
        line.cache.drop_backfill((NAMESPACE, "b"), "b")

        assert line.offered() == ["a"]

    def test_that_ends_with_a_driver_ends_the_wait(self):
        """Else a Backfill that runs would be offered places."""
        line = self.lined_up("a", "b")
        line.look((NAMESPACE, "a"), launches=True)
        line.cache.drop_backfill((NAMESPACE, "a"), "a")

        assert line.offered() == ["b"]

    def test_of_one_that_does_not_wait_wakes_no_other(self):
        """Thousands whose status cannot be read are looked at again and again."""
        line = self.lined_up("a", "b")
        line.woken.clear()
        with suppress(LookupError), line.slots.turn(line.store("other")):
            raise LookupError

        assert line.woken == []

    def test_that_none_can_take_is_not_offered(self):
        """Each of them comes back by itself: the queue asks for it again."""
        line = self.lined_up("a", "b")
        for name in ("a", "b"):
            with suppress(LookupError), line.slots.turn((NAMESPACE, name)):
                raise LookupError

        assert line.offered() == []


class TestRoomForDrivers:
    async def test_is_kept_to_and_given_in_turn(self):
        """Ten at once, room for two: never a third, and all come to their end."""
        names = [f"job-{number}" for number in range(6)]
        async with Rig(max_drivers=2) as rig:
            for name in names:
                rig.create(name)
            most, done = 0, set()
            while len(done) < len(names):
                await rig.until(lambda: any(one not in done and rig.holds("Running", one) for one in names), 20)
                alive = [one for one, phase in rig.pods().items() if phase in ("Pending", "Running")]
                most = max(most, len(alive))
                waiting = [one for one in names if rig.condition("Reconciling", one) == ("True", "DriversLimited")]
                assert len(waiting) + 2 <= len(names)
                name = next(one for one in names if one not in done and rig.holds("Running", one))
                rig.kubelet.finish(rig.driver(name))
                await rig.until_phase("Succeeded", name)
                done.add(name)
            assert most <= 2

    async def test_is_offered_only_to_those_that_wait(self):
        """A slot went from one suspended Backfill to the next, each of which was looked at, before one launched."""
        resting = [f"rest-{number:02}" for number in range(60)]
        async with Rig(max_drivers=1, relist_min_seconds=60, relist_max_seconds=60) as rig:
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
        """Has the operator seen every Backfill as it is, and nothing to look at?"""
        operator = rig.operator
        known = all(
            operator.cache.backfill(key)["metadata"]["resourceVersion"] == one["metadata"]["resourceVersion"]
            for key, one in list(rig.store.objects["backfills"].items())
        )
        return known and not operator.queue.busy and not len(operator.queue)

    @staticmethod
    def looks(rig):
        """Return how many reconciles there were."""
        return rig.operator.metrics.registry.get_sample_value("backfill_operator_reconcile_seconds_count")

    async def test_of_a_namespace_is_its_own(self):
        """The words say whose limit it is."""
        async with Rig(max_drivers_per_namespace=1) as rig:
            rig.create("a")
            await rig.until_holds("Running", "a")
            rig.create("b")
            await rig.until(lambda: rig.condition("Reconciling", "b") == ("True", "DriversLimited"))
            assert "in this namespace" in str(rig.status("b"))
            rig.delete("a")
            await rig.until_holds("Running", "b")
            assert {namespace for namespace, _ in rig.store.objects["backfills"]} == {NAMESPACE}
