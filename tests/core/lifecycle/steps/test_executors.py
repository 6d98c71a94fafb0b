"""A driver whose executors wait: the status says for what, and an edit of what they are made of replaces the attempt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import (
    T0,
    after,
    checked,
    conditions,
    ended,
    observed,
    pod,
    reason,
    report,
    running,
    spec,
)
from support.operators.world import World

from backfill_core.lifecycle.actions import Decision, DeletePod, LaunchDriver, PersistIntent, RefetchPods, SendCommand
from backfill_core.lifecycle.inputs.launched_of import executors_of, launched_of
from backfill_core.lifecycle.observation import DriverPod, Observation, WaitingExecutors

BEFORE = spec(spark={"image": "localhost/missing:1"})
NO_IMAGE = WaitingExecutors("ImagePullBackOff", "no such image")
NO_NODE = WaitingExecutors(message="0/3 nodes are available: 3 Insufficient memory")


def driver(executors: WaitingExecutors | None = NO_IMAGE, **fields: Any) -> DriverPod:
    """Return a driver at work that was made of the spec before the edit."""
    made = {"launched_of": launched_of(BEFORE), "executors_of": executors_of(BEFORE), "started": True}
    return running(executors=executors, **(made | fields))


def working(one: DriverPod, **fields: Any) -> Observation:
    """Return a Backfill with this driver, which was edited since."""
    given = {"status": STATUSES["running"], "pods": (one,), "report": report(), "generation": 2}
    return observed(**(given | fields))


def message(decision: Decision, type_: str) -> str:
    """Return what a condition says."""
    return next(one.message for one in decision.status.conditions if one.type == type_)


def stops(decision: Decision) -> str:
    """Return why the attempt is asked to end; empty: it is not."""
    attempt = decision.status.attempt
    return attempt.stop.reason if attempt and attempt.stop else ""


class TestExecutorsThatWait:
    """The driver runs, so nothing else would tell."""

    def test_are_named_with_the_reason_of_their_container(self) -> None:
        """As those of a driver's pod that does not start."""
        decision = checked(working(driver(), spec=BEFORE))

        assert decision.status.phase == "Running"
        assert reason(decision.status) == reason(decision.status, "Reconciling") == "ExecutorsWaiting"
        assert message(decision, "Ready") == "executors wait: ImagePullBackOff: no such image"
        assert message(decision, "ExecutorsWaiting") == message(decision, "Ready")
        [event] = decision.events
        assert (event.kind, event.reason, event.message) == ("Warning", "ExecutorsWaiting", message(decision, "Ready"))

    def test_are_told_by_one_event(self) -> None:
        """What lasts is in the conditions."""
        seen = working(driver(), spec=BEFORE)
        first = checked(seen)

        assert checked(after(seen, first)).events == ()

    def test_are_told_no_more_once_they_run(self) -> None:
        """The condition is present only when true."""
        seen = working(driver(), spec=BEFORE)
        well = checked(after(seen, checked(seen), pods=(driver(None),)))

        assert "ExecutorsWaiting" not in conditions(well.status)
        assert reason(well.status) == "Running"

    def test_without_a_node_are_named_while_the_job_counts_as_running(self) -> None:
        """Where their number follows the load some often wait for a node."""
        decision = checked(working(driver(NO_NODE), spec=BEFORE))

        assert reason(decision.status) == "Running"
        assert message(decision, "ExecutorsWaiting") == f"executors wait: {NO_NODE.message}"
        assert not any(one.reason == "ExecutorsWaiting" for one in decision.events)

    def test_that_no_pod_stands_for_are_told_by_the_driver(self) -> None:
        """A quota refuses their pods; a pod that waits says more."""
        said = report(warnings=("0 of 2 executors are running",), warning_codes=("ExecutorsMissing",))
        refused = checked(working(driver(None), spec=BEFORE, report=said))
        waiting = checked(working(driver(), spec=BEFORE, report=said))

        assert message(refused, "ExecutorsWaiting") == "0 of 2 executors are running"
        assert (refused.status.phase, reason(refused.status)) == ("Running", "Running")
        assert message(waiting, "ExecutorsWaiting") == "executors wait: ImagePullBackOff: no such image"

    def test_of_a_paused_job_leave_it_paused(self) -> None:
        """It asks for none of them."""
        paused = spec(spark={"image": "localhost/missing:1"}, desiredState="Paused")
        decision = checked(working(driver(), spec=paused, report=report(paused="History")))

        assert (decision.status.phase, conditions(decision.status)["Ready"]) == ("Paused", "True")
        assert conditions(decision.status)["ExecutorsWaiting"] == "True"

    def test_are_named_while_the_driver_starts(self) -> None:
        """And by the message of the attempt that did not start in time."""
        one = driver(ready=False)
        seen = working(one, spec=BEFORE, status=STATUSES["starting"], report=None)
        starting = checked(seen)
        late = checked(after(seen, starting), T0 + 700_000)

        assert message(starting, "Ready") == "executors wait: ImagePullBackOff: no such image"
        assert stops(late) == "StartupTimeout"
        assert message(late, "Ready") == message(starting, "Ready")


class TestAnEditOfWhatTheyAreMadeOf:
    """They would go on waiting for what the user has put right: Spark made their template with the driver."""

    def test_replaces_the_attempt_when_none_runs(self) -> None:
        """At a barrier, without a failure and without a wait."""
        cached = working(driver())
        asked = checked(cached)
        seen = replace(cached, pods=(driver(replace(NO_IMAGE, running=0)),), live=True)
        stopped = checked(seen)
        over = checked(after(seen, stopped, pods=(ended(10, launched_of=launched_of(BEFORE)),), report=None))
        again = checked(after(seen, over, pods=(), report=None, live=True))

        assert asked.actions == (RefetchPods("orders-1-driver", "pod-1"),)
        assert stopped.actions[0] == PersistIntent()
        assert [one.request.command.type for one in stopped.actions if isinstance(one, SendCommand)] == ["Stop"]
        assert not any(isinstance(one, DeletePod) for one in stopped.actions)
        assert ("Normal", "SpecChanged") in [(one.kind, one.reason) for one in stopped.events]
        assert "executor" in message(stopped, "Ready")
        assert [one.reason for one in over.status.history] == ["SpecChanged"]
        assert (over.status.failures, over.requeue_after_s) == (0, 0)
        assert LaunchDriver(2, "Run") in again.actions

    @pytest.mark.parametrize("waits", [NO_NODE, WaitingExecutors("CreateContainerConfigError", "secret not found")])
    def test_replaces_it_whatever_they_wait_for(self, waits: WaitingExecutors) -> None:
        """A node with room, a Secret, a volume: all of it is in the spec."""
        seen = working(driver(replace(waits, running=0)), live=True)

        assert stops(checked(seen)) == "SpecChanged"

    def test_replaces_a_driver_that_is_not_ready_yet(self) -> None:
        """By SIGTERM, after which it stops at a barrier, too."""
        one = driver(replace(NO_IMAGE, running=0), ready=False)
        seen = working(one, status=STATUSES["starting"], report=None, live=True)
        decision = checked(seen)

        assert stops(decision) == "SpecChanged"
        assert DeletePod("orders-1-driver", "pod-1", 60) in decision.actions

    @pytest.mark.parametrize("live", [False, True])
    def test_leaves_a_driver_alone_one_of_whose_executors_runs(self, live: bool) -> None:
        """Beside others that wait for a node it is at work; and the API server is not asked again at each look."""
        decision = checked(working(driver(replace(NO_NODE, running=1)), live=live))

        assert stops(decision) == ""
        assert not any(isinstance(one, RefetchPods) for one in decision.actions)

    @pytest.mark.parametrize("waiting", ["ImagePullBackOff", "CreateContainerConfigError"])
    def test_replaces_it_although_some_run_where_the_others_wait_for_what_never_comes(self, waiting: str) -> None:
        """All are made alike: a node that had the image, or a moment before the Secret went. Each that is lost is lost for good."""
        waits = WaitingExecutors(waiting, "not found", running=1)
        asked = checked(working(driver(waits)))
        stopped = checked(working(driver(waits), live=True))

        assert asked.actions == (RefetchPods("orders-1-driver", "pod-1"),)
        assert stops(stopped) == "SpecChanged"
        assert message(stopped, "Ready").startswith(
            "the spec was changed while executors of the driver could not start"
        )

    def test_leaves_it_alone_where_they_wait_for_what_takes_time(self) -> None:
        """A reason that says nothing of the image or of the configuration is no reason to stop those that run."""
        waits = WaitingExecutors("AnotherReason", "wait", running=1)

        assert stops(checked(working(driver(waits), live=True))) == ""

    def test_waits_for_a_look_at_the_executors_themselves(self) -> None:
        """The list of those that wait is some seconds old, and says nothing of those that run."""
        assert stops(checked(working(driver(), live=True))) == ""

    def test_leaves_a_driver_alone_whose_executors_do_not_wait(self) -> None:
        """An edit of a running job is one for the next attempt."""
        assert stops(checked(working(driver(None), live=True))) == ""

    @pytest.mark.parametrize(
        "edit",
        [
            {"barrier": {"intervalMs": 500}},
            {"after": "Follow"},
            {"driver": {"resources": {"limits": {"memory": "4Gi"}}}},
        ],
    )
    def test_of_another_part_leaves_it_alone(self, edit: dict[str, Any]) -> None:
        """It mends no executor."""
        other = spec(spark={"image": "localhost/missing:1"}, **edit)

        assert stops(checked(working(driver(replace(NO_IMAGE, running=0)), spec=other, live=True))) == ""

    def test_of_an_earlier_version_leaves_it_alone(self) -> None:
        """What they were made of is not known."""
        assert stops(checked(working(driver(replace(NO_IMAGE, running=0), executors_of=""), live=True))) == ""

    @pytest.mark.parametrize("seed", range(20))
    def test_ends_no_driver_whose_executors_run(self, seed: int) -> None:
        """With a stale cache, lost answers and an operator that dies; `World` looks at every attempt that is replaced."""
        world = World(seed)
        world.work_wanted, world.executors_wait = 10**9, 0.5
        for _ in range(120):
            world.tick(world.chance.choice([0.2, 1, 5]))
            if world.chance.random() < 0.3:
                world.edit(spark={"image": f"localhost/spark:{world.now_ms}"})
            world.reconcile()

        assert world.replaced
        assert world.alive_max <= 1


class TestWhatExecutorsAreMadeOf:
    """Image, settings of Spark, template, resources and their number; and the Secret of the source."""

    @pytest.mark.parametrize(
        "edit",
        [
            {"spark": {"image": "localhost/spark:2"}},
            {"spark": {"imagePullPolicy": "Always"}},
            {"spark": {"conf": {"spark.executor.memoryOverhead": "1g"}}},
            {"executor": {"instances": 2}},
            {"executor": {"resources": {"limits": {"memory": "4Gi"}}}},
            {"executor": {"template": {"spec": {"nodeSelector": {"disk": "fast"}}}}},
        ],
    )
    def test_is_another_after_an_edit_of_it(self, edit: dict[str, Any]) -> None:
        """Each of these can be what they wait for."""
        assert executors_of(spec(**edit)) != executors_of(spec())

    def test_is_another_with_another_secret_of_the_source(self) -> None:
        """Each executor mounts it."""
        topic = {"bootstrapServers": "kafka:9092", "topic": "orders"}
        made = [
            spec(source={"type": "Kafka", "kafka": topic | {"secretRef": name}}, strategy={"type": "SourceSplits"})
            for name in ("one", "other")
        ]

        assert executors_of(made[0]) != executors_of(made[1])

    @pytest.mark.parametrize(
        "edit", [{"throttle": {"rowsPerSecond": 5}}, {"suspend": True}, {"after": "Follow"}, {"executor": {}}]
    )
    def test_is_the_same_after_an_edit_of_another_part(self, edit: dict[str, Any]) -> None:
        """Or after one that writes a default down."""
        assert executors_of(spec(**edit)) == executors_of(spec())

    def test_is_not_asked_of_a_driver_that_never_ran(self) -> None:
        """It made none, and the rule for its own pod holds."""
        waits = pod(launched_of=launched_of(BEFORE), executors_of=executors_of(BEFORE))
        seen = working(waits, status=STATUSES["starting"], report=None)

        assert checked(seen).actions == (RefetchPods("orders-1-driver"),)
