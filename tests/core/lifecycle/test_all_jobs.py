"""The switch that pauses all jobs: every driver pauses, no driver is launched, and each job's own state returns afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from support.operators.lifecycle_space import PODS, REPORTS, SHARES, SPECS, STATUSES, share_of
from support.operators.observations import (
    T0,
    after,
    checked,
    conditions,
    ended,
    observed,
    reason,
    report,
    running,
    spec,
)

from backfill_api.names import CHANGED_BY_ANNOTATION, DRAIN_FINALIZER, OVERRIDE_ANNOTATION
from backfill_api.spec.change_claim import PauseAll
from backfill_api.wire import Ack, Command
from backfill_core.lifecycle.actions import (
    Decision,
    DeletePod,
    LaunchDriver,
    PersistIntent,
    RemoveFinalizer,
    SendCommand,
)
from backfill_core.lifecycle.decide import decide
from backfill_core.lifecycle.inputs.all_jobs import read_switch
from backfill_core.lifecycle.observation import Observation, SpecRefused
from backfill_core.lifecycle.resting import at_rest

ON = PauseAll(enabled=True, note="incident 4711", by="anna")
OFF = PauseAll(enabled=False, by="otto")
MESSAGE = "all jobs are paused by anna (claimed): incident 4711"
DRIVER = observed(status=STATUSES["running"], pods=(running(),), report=report(), finalizers=(DRAIN_FINALIZER,))
OWN: dict[str, dict[str, Any]] = {
    "runs": {}, "paused": {"spec": spec(desiredState="Paused")},
    "paused with changes": {"spec": spec(desiredState="Paused", pause={"scope": "All"})},
    "throttled": {"spec": spec(throttle={"rowsPerSecond": 5})},
    "overridden": {"annotations": {OVERRIDE_ANNOTATION: '{"desiredState":"Paused","throttle":{"rowsPerSecond":7}}'}},
    "running by override": {
        "spec": spec(desiredState="Paused"), "annotations": {OVERRIDE_ANNOTATION: '{"desiredState":"Running"}'}
    },
}  # fmt: skip


def commands(decision: Decision) -> list[Command]:
    """Return the commands that are sent, in order."""
    return [action.request.command for action in decision.actions if isinstance(action, SendCommand)]


def launches(decision: Decision) -> bool:
    """Return whether a driver is launched."""
    return any(isinstance(action, LaunchDriver) for action in decision.actions)


def obeyed(observation: Observation) -> tuple[Observation, Decision]:
    """Let an ideal driver obey until no command waits; return the observation and the last decision."""
    for _ in range(4):
        decision = checked(observation)
        sent = [action.request for action in decision.actions if isinstance(action, SendCommand)]
        observation = after(observation, decision)
        if not sent or observation.report is None or observation.report.progress is None:
            return observation, decision
        progress = observation.report.progress
        for request in sent:
            command, update = request.command, {"revision": request.revision}
            if command.type in ("Pause", "Resume"):
                update["paused"] = command.pause.scope if command.pause else None
            if command.throttle is not None:
                update["throttle_rows_per_second"] = command.throttle.rows_per_second
            progress = progress.model_copy(update=update)
        acks = tuple(Ack(attempt=1, epoch=9, revision=request.revision, outcome="Applied") for request in sent)
        observation = replace(observation, report=replace(observation.report, progress=progress, acks=acks))
    raise AssertionError("the driver gets ever more commands")


def in_force(observation: Observation) -> tuple[object, object]:
    """Return the pause and the limit that the driver reports."""
    assert observation.report is not None
    assert observation.report.progress is not None
    return observation.report.progress.paused, observation.report.progress.throttle_rows_per_second


class TestARunningJob:
    """The switch takes precedence over spec and override, and changes neither."""

    @pytest.mark.parametrize("own", OWN)
    def test_the_driver_pauses_everything(self, own: str) -> None:
        """Its limits stay, and the status reports who paused all jobs and why."""
        before, _ = obeyed(replace(DRIVER, **OWN[own]))
        paused, decision = obeyed(replace(before, pause_all=ON))

        assert in_force(paused) == ("All", in_force(before)[1])
        assert (decision.status.phase, reason(decision.status), reason(decision.status, "Paused")) == (
            "Paused", "AllJobsPaused", "AllJobsPaused"
        )  # fmt: skip
        assert {shown.message for shown in decision.status.conditions if shown.reason == "AllJobsPaused"} == {MESSAGE}
        assert decision.status.all_jobs_pause == ON.pause

    @pytest.mark.parametrize("own", OWN)
    def test_lifting_restores_its_own_state(self, own: str) -> None:
        """Driver, conditions and status are as before, apart from times and commands."""
        before, first = obeyed(replace(DRIVER, **OWN[own]))
        paused, _ = obeyed(replace(before, pause_all=ON))
        lifted, last = obeyed(replace(paused, pause_all=OFF))

        assert in_force(lifted) == in_force(before)
        assert last.status.model_copy(update={"control": None}) == first.status.model_copy(update={"control": None})

    def test_an_edit_during_the_pause_takes_effect_afterwards(self) -> None:
        """The spec of the time of the lifting is in force."""
        paused, _ = obeyed(replace(DRIVER, pause_all=ON))
        edited, _ = obeyed(replace(paused, spec=spec(desiredState="Paused"), generation=2))
        lifted, _ = obeyed(replace(edited, pause_all=OFF))

        assert (in_force(edited)[0], in_force(lifted)[0]) == ("All", "History")

    def test_the_command_is_recorded_first(self) -> None:
        """Like every command."""
        decision = checked(replace(DRIVER, pause_all=ON))

        assert [type(action) for action in decision.actions[:2]] == [PersistIntent, SendCommand]

    def test_acknowledgements_name_the_author_of_the_switch(self) -> None:
        """An annotation of the object is about another change."""
        notes = {CHANGED_BY_ANNOTATION: '{"by":"maria","note":"limit"}'}
        paused, _ = obeyed(replace(DRIVER, annotations=notes, pause_all=ON))
        _, last = obeyed(replace(paused, pause_all=OFF))

        assert last.status.control is not None
        assert [(ack.type, ack.by, ack.note) for ack in last.status.control.acks] == [
            ("Pause", "anna", "incident 4711"), ("Resume", "otto", "")
        ]  # fmt: skip

    def test_a_job_that_is_paused_anyway_gets_no_command(self) -> None:
        """Its driver holds everything already."""
        own, _ = obeyed(replace(DRIVER, **OWN["paused with changes"]))

        assert commands(checked(replace(own, pause_all=ON))) == []

    def test_an_unreadable_spec_prevents_no_pause(self) -> None:
        """The driver keeps its limit, because the spec that set it cannot be read."""
        limited, _ = obeyed(replace(DRIVER, **OWN["throttled"]))
        refused = replace(limited, spec=SpecRefused(("spec.throttle: is odd",)), pause_all=ON)
        paused, decision = obeyed(refused)

        assert in_force(paused) == ("All", 5)
        assert reason(decision.status) == "SpecRefused"

    def test_suspension_deletion_and_ends_go_on(self) -> None:
        """The switch holds work, and no user's request to end it."""
        paused, _ = obeyed(replace(DRIVER, pause_all=ON))
        suspended = checked(replace(paused, spec=spec(suspend=True)))
        deleted = checked(replace(paused, deletion_ms=T0))
        done = checked(replace(paused, pods=(ended(0),)))

        assert [command.type for command in commands(suspended)] == ["Stop"]
        assert [command.type for command in commands(deleted)] == ["Stop"]
        assert done.status.phase == "Succeeded"


class TestALaunch:
    """No driver is created while the switch is set."""

    @pytest.mark.parametrize("status", ["new", "planned", "failed once"])
    def test_a_launch_waits(self, status: str) -> None:
        """The condition reports why, and needs no person."""
        decision = checked(observed(status=STATUSES[status], pause_all=ON, live=True))

        assert not launches(decision)
        assert (decision.status.phase, reason(decision.status)) == ("Pending", "AllJobsPaused")
        assert conditions(decision.status).keys().isdisjoint({"Stalled", "Reconciling"})

    @pytest.mark.parametrize("status", ["new", "planned", "failed once"])
    def test_a_held_launch_follows_the_lifting(self, status: str) -> None:
        """The driver starts with its own controls, and its deadline counts from now."""
        own = spec(throttle={"rowsPerSecond": 5}, activeDeadlineSeconds=30)
        held = observed(status=STATUSES[status], spec=own, pause_all=ON, live=True)
        held = replace(held, status=checked(held).status)
        decision = decide(replace(held, pause_all=OFF), T0 + 3_600_000)

        launch = next(action for action in decision.actions if isinstance(action, LaunchDriver))
        assert (launch.paused, launch.rows_per_second) == (None, 5)
        assert decision.status.all_jobs_pause is None

    def test_a_driver_that_ends_has_no_successor_until_the_lifting(self) -> None:
        """Its end is recorded first."""
        lost = replace(DRIVER, pods=(ended(137, reason="OOMKilled"),), pause_all=ON, live=True)
        recorded = checked(lost)
        held = checked(after(lost, recorded, live=True))

        assert recorded.status.history[-1].reason == "Infrastructure"
        assert not launches(recorded)
        assert not launches(held)
        assert reason(held.status) == "AllJobsPaused"


class TestAnUnknownSwitch:
    """A ConfigMap that cannot be read changes nothing."""

    def test_a_restart_of_the_operator_keeps_the_pause(self) -> None:
        """The status holds it."""
        paused, decision = obeyed(replace(DRIVER, pause_all=ON))
        again = checked(replace(paused, pause_all=None))

        assert (again.status, commands(again)) == (decision.status, [])

    def test_it_pauses_no_running_job(self) -> None:
        """Nothing was paused before."""
        assert checked(replace(DRIVER, pause_all=None)) == checked(replace(DRIVER, pause_all=OFF))


class TestAFinishedJob:
    """It has nothing to pause."""

    @pytest.mark.parametrize("status", ["complete", "failed"])
    def test_its_status_is_not_written(self, status: str) -> None:
        """A cluster may hold a hundred thousand of them."""
        stored = checked(observed(status=STATUSES[status])).status

        assert checked(observed(status=stored, pause_all=ON)).status == stored
        assert at_rest(stored, generation=1)

    def test_a_job_that_ends_during_the_pause_is_at_rest(self) -> None:
        """The pause leaves its status with the end."""
        paused, _ = obeyed(replace(DRIVER, pause_all=ON))
        over = replace(paused, pods=(ended(0),), finalizers=())
        over = replace(over, status=checked(over).status)
        over = replace(over, status=checked(over).status)

        assert at_rest(over.status, generation=1)


def held_space() -> Iterator[tuple[str, Observation]]:
    """Yield each combination of spec, status, pods and report, kept and deleted, with the switch on."""
    for spec_name, status, pods, reported, deleted in product(
        SPECS, STATUSES, PODS, ("silence", "works"), (False, True)
    ):
        yield (
            f"{spec_name} / {status} / {pods} / {reported} / {deleted}",
            observed(
                spec=SPECS[spec_name], status=STATUSES[status], pods=PODS[pods], report=REPORTS[reported], live=True,
                pause_all=ON, finalizers=(DRAIN_FINALIZER,) if deleted else (), deletion_ms=T0 - 1_000 if deleted else None,
            ),
        )  # fmt: skip


@pytest.mark.parametrize("share", SHARES)
class TestAllStates:
    """Every state of the exhaustive suite, with live pods, while all jobs are paused."""

    def test_no_state_launches_or_resumes(self, share: tuple[int, ...]) -> None:
        """A command either pauses everything, or is not about a pause. Pods are deleted and finalizers removed as without the switch."""
        for name, observation in share_of(share, held_space()):
            decision, free = checked(observation), checked(replace(observation, pause_all=OFF))
            assert not launches(decision), name
            waiting = observation.status.control.pending if observation.status.control else ()
            new = [command for command in commands(decision) if command not in [sent.command for sent in waiting]]
            pauses = [command for command in new if command.type in ("Pause", "Resume")]
            assert all(command.pause is not None and command.pause.scope == "All" for command in pauses), name
            ends = [
                [action for action in made.actions if isinstance(action, DeletePod | RemoveFinalizer)]
                for made in (decision, free)
            ]
            assert ends[0] == ends[1] or launches(free), name
            finished = conditions(decision.status).get("Finished") == "True"
            assert (decision.status.all_jobs_pause == ON.pause) != finished, name

    def test_a_stable_world_needs_no_further_decision(self, share: tuple[int, ...]) -> None:
        """A pause of 1,000 jobs ends after a few writes of each."""
        kept = [(name, observation) for name, observation in held_space() if observation.deletion_ms is None]
        for name, observation in share_of(share, kept):
            for _ in range(6):
                decision = decide(observation, T0)
                before, observation = observation, replace(observation, status=decision.status)
                if observation == before and decision.events == ():
                    break
            else:
                pytest.fail(name)


class TestTheContent:
    """The value of the ConfigMap's key. An error must neither pause nor resume."""

    @pytest.mark.parametrize(
        "data", [None, {}, {"pauseAll": ""}, {"pauseAll": " "}, {"other": "x"}, {"pauseAll": '{"enabled":false}'}]
    )
    def test_no_value_pauses_nothing(self, data: object) -> None:
        """The chart renders no key by default."""
        assert read_switch(data).pause is None

    def test_a_value_names_author_and_reason(self) -> None:
        """Fields of a later version are ignored, control characters become spaces, and a long reason is cut."""
        text = '{"enabled":true,"note":"a\\u001b[31m%s","by":"anna","time":"2026-11-26T21:37:02Z","later":1}' % (
            "x" * 999
        )
        switch = read_switch({"pauseAll": text})

        assert switch.pause is not None
        assert (switch.pause.by, switch.pause.note) == ("anna", ("a [31m" + "x" * 999)[:256])

    @pytest.mark.parametrize(
        "data",
        [{"pauseAll": text} for text in ("true", "yes", "{", "[]", "null", '{"enabled":"true"}', '{"enable":true}', "[" * 4000,
                                         '{"enabled":1}', '{"enabled":true,"by":7}', '{"enabled":true}' + " " * 5000)]
        + [{"pauseAll": 1}, [], 7],
    )  # fmt: skip
    def test_an_odd_value_is_an_error_that_shows_the_remedy(self, data: object) -> None:
        """The operator logs the message."""
        with pytest.raises(
            ValueError, match=r"ConfigMap backfill-all-jobs, pauseAll.*the previous state stays.*\"enabled\": true"
        ):
            read_switch(data)
