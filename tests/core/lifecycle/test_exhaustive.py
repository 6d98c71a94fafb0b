"""Every state against every event: the invariants of a decision hold for all combinations."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pytest
from support.operators.lifecycle_space import SHARES, SPECS, STATUSES, observations_of, share_of
from support.operators.observations import T0, checked, conditions

from backfill_core.lifecycle.actions import (
    Decision,
    DeleteObject,
    DeletePod,
    LaunchDriver,
    RefetchPods,
    RemoveFinalizer,
    SendCommand,
)
from backfill_core.lifecycle.decide import decide
from backfill_core.lifecycle.naming import number_of
from backfill_core.lifecycle.observation import Observation

ROUNDS = 6
Decided = list[tuple[str, Observation, Decision]]


@lru_cache(maxsize=1)
def decided(spec: str, status: str, share: tuple[int, ...]) -> Decided:
    """Return a share of the observations of a spec and a stored status, each with its checked decision; the tests of a share run
    in a row."""
    start = [*SPECS].index(spec) + [*STATUSES].index(status)
    chosen = share_of(share, observations_of(spec, status), start=start)
    return [(name, observation, checked(observation)) for name, observation in chosen]


@pytest.mark.parametrize("share", SHARES, scope="class")
@pytest.mark.parametrize("spec", SPECS, scope="class")
@pytest.mark.parametrize("status", STATUSES, scope="class")
class TestAllAgainstAll:
    """The combinations cover specs, stored statuses, pods, drivers' reports, live and cached pods, kept and deleted
    objects."""

    def test_every_decision_keeps_the_invariants(self, spec: str, status: str, share: tuple[int, ...]) -> None:
        """A decision launches at most one driver and none while another runs. It follows the kstatus rules, has known
        reasons, and its status fits the schema."""
        for name, observation, decision in decided(spec, status, share):
            actions = decision.actions
            commands = [action.request for action in actions if isinstance(action, SendCommand)]
            assert [command.revision for command in commands] == sorted({command.revision for command in commands}), (
                name
            )
            if any(isinstance(action, LaunchDriver) for action in actions):
                assert spec != "refused", name
                assert not any(isinstance(action, DeletePod) and action.grace_s for action in actions), name
            if any(isinstance(action, RemoveFinalizer) for action in actions) and observation.deletion_ms is not None:
                alive = [pod for pod in observation.pods if not pod.over and pod.owner_uid == observation.uid]
                assert alive == [] or spec == "immediate", name
            assert not any(isinstance(action, DeleteObject) for action in actions) or status in (
                "complete",
                "failed",
            ), name

    def test_a_stable_world_needs_no_further_decision(self, spec: str, status: str, share: tuple[int, ...]) -> None:
        """After a few rounds, no new decision and no repeated event follows. Otherwise an idle operator would write
        forever."""
        for name, observation, decision in decided(spec, status, share):
            for _ in range(ROUNDS):
                before = observation
                if any(isinstance(action, RefetchPods) for action in decision.actions):
                    observation = replace(observation, live=True)
                observation = replace(observation, status=decision.status)
                if observation == before and decision.events == ():
                    break
                decision = decide(observation, T0)
            else:
                pytest.fail(name)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("status", ["complete", "failed"])
class TestTheEnd:
    """A job ends only once."""

    def test_a_finished_job_stays_finished(self, spec: str, status: str) -> None:
        """Without an edit a finished job is never launched again, unless the status is older than a pod."""
        for name, observation in observations_of(spec, status):
            if (
                observation.deletion_ms is None
                and max((number_of(observation.name, pod.name) or 0 for pod in observation.pods), default=0) < 2
            ):
                decision = checked(observation, T0)
                assert conditions(decision.status)["Finished"] == "True", name
                assert decision.status.attempts == observation.status.attempts, name
