"""Observations that no real cluster produces: each has a decision, and the decision keeps the invariants."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from support.operators.lifecycle_space import PODS, REPORTS, SPECS, STATUSES
from support.operators.observations import NAME, T0, UID, checked, observed, pod

from backfill_api.status.status import Attempt, Control, PendingCommand, StopRequest
from backfill_api.wire import Command
from backfill_core.lifecycle.observation import DriverPod, LaunchFailed

texts = st.text(max_size=12)
moments = st.sampled_from(
    ["", "yesterday", "2027-01-15T08:00:00Z", "2027-01-15T07:00:00+01:00", "9999-12-31T23:59:59Z"]
)
numbers = st.integers(0, 12)
times = st.none() | st.integers(T0 - 10**8, T0 + 10**8)
pods = st.builds(
    DriverPod,
    name=st.sampled_from([f"{NAME}-1-driver", f"{NAME}-2-driver", "x"]), uid=st.sampled_from(["pod-1", "pod-2", ""]),
    owner_uid=st.sampled_from([UID, "else", None]), attempt=st.none() | numbers, kind=st.sampled_from(["Run", "Plan"]),
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]), ready=st.booleans(),
    created_ms=st.integers(0, T0 + 10**8), deletion_ms=times, exit_code=st.none() | st.integers(-5, 300), reason=texts,
    message=texts, started=st.booleans(), launched_of=st.sampled_from(["", "of before"]), waiting=st.sampled_from(["", "ErrImagePull", "x"]), oom_killed=st.booleans(), disrupted=st.booleans(),
)  # fmt: skip
stops = st.none() | st.builds(
    StopRequest,
    reason=st.sampled_from(["Suspended", "Deleted", "Restarted", "DeadlineExceeded", "SpecChanged", "StartupTimeout", "SubmissionFailed"]),
    time=moments, revision=st.none() | numbers,
)  # fmt: skip
attempts = st.none() | st.builds(
    Attempt, number=numbers, kind=st.sampled_from(["Run", "Plan"]), state=st.sampled_from(["Planned", "Created", "Ended"]),
    pod_uid=st.sampled_from([None, "pod-1"]), start_time=st.none() | moments, ready_time=st.none() | moments, stop=stops,
)  # fmt: skip
commands = st.builds(PendingCommand, revision=numbers, command=st.sampled_from([Command(type="Pause"), Command(type="Stop"), Command(type="Verify")]))  # fmt: skip
controls = st.none() | st.builds(
    Control, desired_revision=numbers, acked_revision=numbers, attempt=numbers, pending_since=st.none() | moments,
    pending=st.lists(commands, max_size=4).map(tuple), paused=st.sampled_from([None, "All"]),
)  # fmt: skip
annotations = st.dictionaries(
    st.sampled_from(["backfill.dev/override", "backfill.dev/verify-requested", "backfill.dev/restart-requested"]),
    texts | st.sampled_from(['{"suspend":true}', '{"desiredState":"Paused"}']),
)
refusals = st.none() | st.builds(
    LaunchFailed, attempt=numbers, at_ms=st.integers(T0 - 10**6, T0 + 10**6), status=st.sampled_from([0, 403, 409, 422, 500]),
    reason=st.sampled_from(["", "NameCollision"]), message=st.sampled_from(["", "exceeded quota"]),
)  # fmt: skip


class TestAnythingMayBeSeen:
    """Users edit statuses, clocks jump, and caches are stale."""

    @settings(max_examples=400)
    @given(
        st.sampled_from(list(SPECS)), st.sampled_from(list(STATUSES)), st.lists(pods, max_size=4), attempts, controls,
        annotations, refusals, st.sampled_from(list(REPORTS)), st.booleans(), times, st.integers(0, 3), numbers,
    )  # fmt: skip
    def test_the_invariants_hold_for_any_observation(
        self, spec, status, seen_pods, attempt, control, notes, refusal, report, live, deletion_ms, generation, failures
    ) -> None:
        """A decision raises no exception, launches at most one driver and none while another runs, and has valid
        conditions."""
        update = {"control": control, "failures": failures} | ({"attempt": attempt} if attempt else {})
        checked(
            observed(
                spec=SPECS[spec], status=STATUSES[status].model_copy(update=update), pods=tuple(seen_pods), live=live,
                annotations=notes, launch_failed=refusal, report=REPORTS[report], deletion_ms=deletion_ms,
                generation=generation, finalizers=("backfill.dev/drain",) if deletion_ms else (),
            )
        )  # fmt: skip

    @given(st.sampled_from(list(STATUSES)), st.sampled_from(list(PODS)), st.permutations(range(3)))
    def test_the_order_of_pods_does_not_matter(self, status, pod_set, order) -> None:
        """A list from a cache has no order."""
        some = (*PODS[pod_set], pod(5, phase="Failed", exit_code=1), replace(pod(6), owner_uid="else", phase="Failed"))[
            :3
        ]
        shuffled = tuple(some[index] for index in order if index < len(some))
        first, second = (observed(status=STATUSES[status], pods=pods, live=True) for pods in (some, shuffled))

        assert checked(first).status == checked(second).status
        assert set(map(repr, checked(first).actions)) == set(map(repr, checked(second).actions))
