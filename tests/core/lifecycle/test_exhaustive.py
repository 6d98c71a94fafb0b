"""Every state against every event: what each decision promises holds for all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operators.lifecycle_space import SPECS, STATUSES, observations_of
from support.operators.observations import T0, checked, conditions

from backfill_core.lifecycle.actions import (
    DeleteObject,
    DeletePod,
    LaunchDriver,
    RefetchPods,
    RemoveFinalizer,
    SendCommand,
)
from backfill_core.lifecycle.decide import decide
from backfill_core.lifecycle.naming import number_of

ROUNDS = 6


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("status", STATUSES)
class TestAllAgainstAll:
    """Specs, stored statuses, pods, drivers' reports, live and cached pods, kept and deleted objects."""

    def test_every_decision_keeps_its_promises(self, spec: str, status: str) -> None:
        """One launch at most and none beside a driver; the rules of kstatus; known reasons; a status the schema takes."""
        for name, observation in observations_of(spec, status):
            decision = checked(observation)
            actions = decision.actions
            commands = [one.request for one in actions if isinstance(one, SendCommand)]
            assert [one.revision for one in commands] == sorted({one.revision for one in commands}), name
            if any(isinstance(one, LaunchDriver) for one in actions):
                assert spec != "refused", name
                assert not any(isinstance(one, DeletePod) and one.grace_s for one in actions), name
            if any(isinstance(one, RemoveFinalizer) for one in actions) and observation.deletion_ms is not None:
                alive = [pod for pod in observation.pods if not pod.over and pod.owner_uid == observation.uid]
                assert alive == [] or spec == "immediate", name
            assert not any(isinstance(one, DeleteObject) for one in actions) or status in ("complete", "failed"), name

    def test_a_stable_world_comes_to_rest(self, spec: str, status: str) -> None:
        """After a few rounds nothing new is decided, and no event repeats: else an idle operator would write for ever."""
        for name, observation in observations_of(spec, status):
            for _ in range(ROUNDS):
                before, decision = observation, decide(observation, T0)
                if any(isinstance(one, RefetchPods) for one in decision.actions):
                    observation = replace(observation, live=True)
                observation = replace(observation, status=decision.status)
                if observation == before and decision.events == ():
                    break
            else:
                pytest.fail(name)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("status", ["complete", "failed"])
class TestTheEnd:
    """A job is over once."""

    def test_what_is_over_stays_over(self, spec: str, status: str) -> None:
        """Without an edit a finished job is never launched again, unless the status is older than a pod."""
        for name, observation in observations_of(spec, status):
            if (
                observation.deletion_ms is None
                and max((number_of(observation.name, pod.name) or 0 for pod in observation.pods), default=0) < 2
            ):
                decision = checked(observation, T0)
                assert conditions(decision.status)["Finished"] == "True", name
                assert decision.status.attempts == observation.status.attempts, name
