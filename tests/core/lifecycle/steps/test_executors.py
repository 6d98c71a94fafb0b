"""A driver whose executors wait: the status reports the reason, and an edit of an executor field replaces the attempt."""

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
    """Return a running driver that was made from the spec before the edit."""
    made = {"launched_of": launched_of(BEFORE), "executors_of": executors_of(BEFORE), "started": True}
    return running(executors=executors, **(made | fields))


def working(driver_pod: DriverPod, **fields: Any) -> Observation:
    """Return a Backfill with this driver and a later edit."""
    given = {"status": STATUSES["running"], "pods": (driver_pod,), "report": report(), "generation": 2}
    return observed(**(given | fields))


def message(decision: Decision, type_: str) -> str:
    """Return the message of a condition."""
    return next(condition.message for condition in decision.status.conditions if condition.type == type_)


def stops(decision: Decision) -> str:
    """Return the reason why the attempt is asked to stop, or an empty string."""
    attempt = decision.status.attempt
    return attempt.stop.reason if attempt and attempt.stop else ""


class TestExecutorsThatWait:
    """The status names waiting executors, because nothing else reports them while the driver runs."""

    def test_waiting_executors_are_named_with_the_reason_of_their_container(self) -> None:
        """The message resembles that of a driver pod that does not start."""
        decision = checked(working(driver(), spec=BEFORE))

        assert decision.status.phase == "Running"
        assert reason(decision.status) == reason(decision.status, "Reconciling") == "ExecutorsWaiting"
        assert message(decision, "Ready") == "executors wait: ImagePullBackOff: no such image"
        assert message(decision, "ExecutorsWaiting") == message(decision, "Ready")
        [event] = decision.events
        assert (event.kind, event.reason, event.message) == ("Warning", "ExecutorsWaiting", message(decision, "Ready"))

    def test_waiting_executors_cause_one_event(self) -> None:
        """The conditions show a lasting state."""
        seen = working(driver(), spec=BEFORE)
        first = checked(seen)

        assert checked(after(seen, first)).events == ()

    def test_the_condition_disappears_once_the_executors_run(self) -> None:
        """The condition is present only when true."""
        seen = working(driver(), spec=BEFORE)
        well = checked(after(seen, checked(seen), pods=(driver(None),)))

        assert "ExecutorsWaiting" not in conditions(well.status)
        assert reason(well.status) == "Running"

    def test_executors_without_a_node_are_named_while_the_job_counts_as_running(self) -> None:
        """Some executors often wait for a node under dynamic allocation."""
        decision = checked(working(driver(NO_NODE), spec=BEFORE))

        assert reason(decision.status) == "Running"
        assert message(decision, "ExecutorsWaiting") == f"executors wait: {NO_NODE.message}"
        assert not any(event.reason == "ExecutorsWaiting" for event in decision.events)

    def test_missing_executors_without_a_pod_are_reported_by_the_driver(self) -> None:
        """A quota rejects their pods. A pod that waits has a more precise message."""
        driver_report = report(warnings=("0 of 2 executors are running",), warning_codes=("ExecutorsMissing",))
        refused = checked(working(driver(None), spec=BEFORE, report=driver_report))
        waiting = checked(working(driver(), spec=BEFORE, report=driver_report))

        assert message(refused, "ExecutorsWaiting") == "0 of 2 executors are running"
        assert (refused.status.phase, reason(refused.status)) == ("Running", "Running")
        assert message(waiting, "ExecutorsWaiting") == "executors wait: ImagePullBackOff: no such image"

    def test_waiting_executors_leave_a_paused_job_paused(self) -> None:
        """A paused job needs no executors."""
        paused = spec(spark={"image": "localhost/missing:1"}, desiredState="Paused")
        decision = checked(working(driver(), spec=paused, report=report(paused="History")))

        assert (decision.status.phase, conditions(decision.status)["Ready"]) == ("Paused", "True")
        assert conditions(decision.status)["ExecutorsWaiting"] == "True"

    def test_waiting_executors_are_named_while_the_driver_starts(self) -> None:
        """The message of an attempt that did not start in time names them too."""
        driver_pod = driver(ready=False)
        seen = working(driver_pod, spec=BEFORE, status=STATUSES["starting"], report=None)
        starting = checked(seen)
        late = checked(after(seen, starting), T0 + 700_000)

        assert message(starting, "Ready") == "executors wait: ImagePullBackOff: no such image"
        assert stops(late) == "StartupTimeout"
        assert message(late, "Ready") == message(starting, "Ready")


class TestAnEditOfWhatTheyAreMadeOf:
    """Executors would continue to wait after the user's fix, because Spark made their template with the driver."""

    def test_an_edit_replaces_the_attempt_when_no_executor_runs(self) -> None:
        """The replacement happens at a barrier, without a failure and without a delay."""
        cached = working(driver())
        refetched = checked(cached)
        seen = replace(cached, pods=(driver(replace(NO_IMAGE, running=0)),), live=True)
        stopped = checked(seen)
        over = checked(after(seen, stopped, pods=(ended(10, launched_of=launched_of(BEFORE)),), report=None))
        again = checked(after(seen, over, pods=(), report=None, live=True))

        assert refetched.actions == (RefetchPods("orders-1-driver", "pod-1"),)
        assert stopped.actions[0] == PersistIntent()
        assert [action.request.command.type for action in stopped.actions if isinstance(action, SendCommand)] == [
            "Stop"
        ]
        assert not any(isinstance(action, DeletePod) for action in stopped.actions)
        assert ("Normal", "SpecChanged") in [(event.kind, event.reason) for event in stopped.events]
        assert "executor" in message(stopped, "Ready")
        assert [past.reason for past in over.status.history] == ["SpecChanged"]
        assert (over.status.failures, over.requeue_after_s) == (0, 0)
        assert LaunchDriver(2, "Run") in again.actions

    @pytest.mark.parametrize("waits", [NO_NODE, WaitingExecutors("CreateContainerConfigError", "secret not found")])
    def test_an_edit_replaces_the_attempt_for_any_reason_of_waiting(self, waits: WaitingExecutors) -> None:
        """Node selection, Secrets and volumes are all part of the spec."""
        seen = working(driver(replace(waits, running=0)), live=True)

        assert stops(checked(seen)) == "SpecChanged"

    def test_an_edit_replaces_a_driver_that_is_not_ready_yet(self) -> None:
        """The driver receives SIGTERM and also stops at a barrier."""
        driver_pod = driver(replace(NO_IMAGE, running=0), ready=False)
        seen = working(driver_pod, status=STATUSES["starting"], report=None, live=True)
        decision = checked(seen)

        assert stops(decision) == "SpecChanged"
        assert DeletePod("orders-1-driver", "pod-1", 60) in decision.actions

    @pytest.mark.parametrize("live", [False, True])
    def test_an_edit_leaves_a_driver_with_a_running_executor(self, live: bool) -> None:
        """Other executors may wait for a node while it works, and the operator must not query the API server at each
        reconcile."""
        decision = checked(working(driver(replace(NO_NODE, running=1)), live=live))

        assert stops(decision) == ""
        assert not any(isinstance(action, RefetchPods) for action in decision.actions)

    @pytest.mark.parametrize("waiting", ["ImagePullBackOff", "CreateContainerConfigError"])
    def test_an_edit_replaces_a_driver_whose_waiting_executors_can_never_start(self, waiting: str) -> None:
        """All executors have one template. The running ones had the image on their node or started before the Secret
        was deleted; lost ones never return."""
        waits = WaitingExecutors(waiting, "not found", running=1)
        refetched = checked(working(driver(waits)))
        stopped = checked(working(driver(waits), live=True))

        assert refetched.actions == (RefetchPods("orders-1-driver", "pod-1"),)
        assert stops(stopped) == "SpecChanged"
        assert message(stopped, "Ready").startswith(
            "the spec was changed while executors of the driver could not start"
        )

    def test_an_edit_leaves_a_driver_whose_executors_wait_for_a_slow_resource(self) -> None:
        """A reason that names neither the image nor the configuration is no reason to stop running executors."""
        waits = WaitingExecutors("AnotherReason", "wait", running=1)

        assert stops(checked(working(driver(waits), live=True))) == ""

    def test_an_edit_waits_for_a_fresh_read_of_the_executors(self) -> None:
        """The list of waiting executors is some seconds old and does not include running ones."""
        assert stops(checked(working(driver(), live=True))) == ""

    def test_an_edit_leaves_a_driver_whose_executors_do_not_wait(self) -> None:
        """An edit of a running job applies to the next attempt."""
        assert stops(checked(working(driver(None), live=True))) == ""

    @pytest.mark.parametrize(
        "edit",
        [
            {"barrier": {"intervalMs": 500}},
            {"after": "Follow"},
            {"driver": {"resources": {"limits": {"memory": "4Gi"}}}},
        ],
    )
    def test_an_edit_of_another_field_leaves_the_driver(self, edit: dict[str, Any]) -> None:
        """Such an edit fixes no executor."""
        other = spec(spark={"image": "localhost/missing:1"}, **edit)

        assert stops(checked(working(driver(replace(NO_IMAGE, running=0)), spec=other, live=True))) == ""

    def test_an_edit_leaves_a_driver_of_an_earlier_version(self) -> None:
        """The template of its executors is not recorded."""
        assert stops(checked(working(driver(replace(NO_IMAGE, running=0), executors_of=""), live=True))) == ""

    @pytest.mark.parametrize("seed", range(20))
    def test_an_edit_ends_no_driver_whose_executors_run(self, seed: int) -> None:
        """The world has a stale cache, lost responses and an operator that dies; `World` checks every attempt that is
        replaced."""
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
    """The executor hash covers image, Spark settings, template, resources and scratch, and the Secret of the source."""

    @pytest.mark.parametrize(
        "edit",
        [
            {"spark": {"image": "localhost/spark:2"}},
            {"spark": {"imagePullPolicy": "Always"}},
            {"spark": {"conf": {"spark.executor.memoryOverhead": "1g"}}},
            {"executor": {"dynamic": {}}},
            {"executor": {"resources": {"limits": {"memory": "4Gi"}}}},
            {"executor": {"template": {"spec": {"nodeSelector": {"disk": "fast"}}}}},
            {"scratch": {"size": "1Gi"}},
        ],
    )
    def test_the_executor_hash_changes_with_each_executor_field(self, edit: dict[str, Any]) -> None:
        """Executors can wait for each of these fields."""
        assert executors_of(spec(**edit)) != executors_of(spec())

    def test_the_executor_hash_changes_with_the_secret_of_the_source(self) -> None:
        """Each executor mounts the Secret."""
        topic = {"bootstrapServers": "kafka:9092", "topic": "orders"}
        made = [
            spec(source={"type": "Kafka", "kafka": topic | {"secretRef": name}}, strategy={"type": "SourceSplits"})
            for name in ("one", "other")
        ]

        assert executors_of(made[0]) != executors_of(made[1])

    @pytest.mark.parametrize(
        "edit",
        [
            {"throttle": {"rowsPerSecond": 5}},
            {"suspend": True},
            {"after": "Follow"},
            {"executor": {}},
            {"executor": {"instances": 2}},
        ],
    )
    def test_the_executor_hash_ignores_other_fields(self, edit: dict[str, Any]) -> None:
        """An edit that only writes a default value changes nothing either."""
        assert executors_of(spec(**edit)) == executors_of(spec())

    def test_the_executor_hash_is_not_compared_for_a_driver_that_never_ran(self) -> None:
        """Such a driver made no executors, and the rule for its own pod applies."""
        waits = pod(launched_of=launched_of(BEFORE), executors_of=executors_of(BEFORE))
        seen = working(waits, status=STATUSES["starting"], report=None)

        assert checked(seen).actions == (RefetchPods("orders-1-driver"),)
