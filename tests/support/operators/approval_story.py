"""The story of one Backfill with `approval: Manual`: actions of its user, decisions of its operator, and launched pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from support.operators.lifecycle_space import PLAN
from support.operators.observations import after, checked, ended, observed, pod, spec

from backfill_api.status.ending import Ending
from backfill_core.lifecycle.actions import Decision, LaunchDriver, RefetchPods
from backfill_core.lifecycle.inputs.approval import planned_of

ONE, OTHER = {"spark": {"image": "localhost/one:1"}}, {"spark": {"image": "localhost/other:1"}}
PLANNED = Ending(outcome="Planned", plan=PLAN)


class Story:
    """One Backfill with `approval: Manual`, its user, and an operator that decides on request."""

    def __init__(self, **fields: Any) -> None:
        """Apply it."""
        self.fields: dict[str, Any] = {"approval": "Manual"} | fields
        self.seen = observed(spec=spec(**self.fields))
        self.launched: list[tuple[str, str]] = []
        """Kind and image of each pod that was made."""

        self.said: list[tuple[str, str]] = []
        """Type and reason of each event."""

        self.made_of = ""

    @property
    def of(self) -> str:
        """The name of the spec's plan."""
        return planned_of(spec(**self.fields))

    def edit(self, **fields: Any) -> None:
        """Apply a manifest."""
        self.fields |= fields
        self.seen = replace(self.seen, spec=spec(**self.fields), generation=self.seen.generation + 1)

    def decide(self) -> Decision:
        """Decide once, and carry the decision out; a launched pod is pending."""
        decision = checked(replace(self.seen, live=False))
        if any(isinstance(action, RefetchPods) for action in decision.actions):
            decision = checked(replace(self.seen, live=True))
        self.seen = after(self.seen, decision)
        self.said += [(event.kind, event.reason) for event in decision.events]
        for action in decision.actions:
            if isinstance(action, LaunchDriver):
                self.launched.append((action.kind, str(self.seen.spec.spark.image)))  # type: ignore[union-attr]
                self.made_of = planned_of(self.seen.spec)  # type: ignore[arg-type]
                self.seen = replace(self.seen, pods=(pod(action.attempt, kind=action.kind, launched_of=self.made_of),))
        return decision

    def rest(self) -> Decision:
        """Decide until nothing more follows."""
        for _ in range(8):
            before = self.seen
            decision = self.decide()
            if self.seen == before:
                return decision
        raise AssertionError("the Backfill does not come to rest")

    def plan(self) -> Decision:
        """Let the planning pod leave its plan."""
        [planning] = self.seen.pods
        assert planning.kind == "Plan"
        self.seen = replace(
            self.seen,
            pods=(ended(0, planning.attempt or 0, kind="Plan", launched_of=planning.launched_of, ending=PLANNED),),
        )
        return self.rest()

    @property
    def phase(self) -> str | None:
        """The phase that users see."""
        return self.seen.status.phase

    @property
    def asks(self) -> str:
        """The message of `Ready`."""
        return next(condition.message for condition in self.seen.status.conditions if condition.type == "Ready")


def awaiting(**fields: Any) -> Story:
    """Return a Backfill whose plan is made."""
    story = Story(**ONE, **fields)
    story.rest()
    story.plan()
    assert story.phase == "AwaitingApproval"
    return story
