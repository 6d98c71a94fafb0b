"""A change becomes the smallest write at the place where it has an effect."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.plugin.objects import SPEC, raw, stored

from backfill_api.names import (
    CHANGED_BY_ANNOTATION,
    COMPLETE_SWITCH_ANNOTATION,
    OVERRIDE_ANNOTATION,
    REFRESH_ANNOTATION,
    REPAIR_ANNOTATION,
    RESTART_ANNOTATION,
    STATE_ANNOTATION,
    SUSPEND_ANNOTATION,
    SWITCH_ANNOTATION,
    UNDO_SWITCH_ANNOTATION,
    VERIFY_ANNOTATION,
)
from backfill_api.spec.change_claim import ChangeClaim
from backfill_api.spec.override import Width
from backfill_kubectl.cluster.writer import merged
from backfill_kubectl.decisions.acknowledgement import controls_of
from backfill_kubectl.decisions.changes import (
    Approve,
    Pause,
    RepairTarget,
    Rescale,
    Resume,
    Retry,
    RunAgain,
    Suspend,
    SwitchOver,
    TakeReceipt,
    Throttle,
    Unsuspend,
)
from backfill_kubectl.decisions.refusals import refusal
from backfill_kubectl.decisions.stored import read_stored
from backfill_kubectl.decisions.writes import decide_write

CLAIM = ChangeClaim(by="anna", note="incident 4711", time="2026-11-26T21:37:02.5Z")
ARGO = {"argocd.argoproj.io/tracking-id": "jobs:backfill.dev/Backfill:shop/orders"}


def write(backfill, change, how=None):
    return decide_write(backfill, change, how=how, claim=CLAIM)


def rescale(**values):
    """Return the command that sets these values of the width."""
    return Rescale(Width(**values))


def annotations(written):
    """Return the annotations of a patch, except for the claim, which each patch has."""
    return {
        name: text for name, text in written.patch["metadata"]["annotations"].items() if name != CHANGED_BY_ANNOTATION
    }


class TestTheSpec:
    """Without a GitOps tool a change is an edit of the spec."""

    def test_pause_sets_only_the_fields_that_differ(self):
        """Defaults of the CRD are present already."""
        backfill = stored(spec={"desiredState": "Running", "pause": {"scope": "History"}})

        written = write(backfill, Pause())

        assert written.patch["spec"] == {"desiredState": "Paused"}
        assert annotations(written) == {}
        assert written.reason == ""

    def test_each_write_carries_the_version_that_was_read_and_the_claim(self):
        """A concurrent write is a conflict, and the author is visible in the status."""
        metadata = write(stored(), Pause()).patch["metadata"]

        assert metadata["resourceVersion"] == "7"
        assert json.loads(metadata["annotations"][CHANGED_BY_ANNOTATION]) == {
            "by": "anna", "note": "incident 4711", "time": "2026-11-26T21:37:02.5Z",
        }  # fmt: skip

    def test_throttle_clears_the_other_limit_and_an_old_end(self):
        """A limit of bytes that stays would be a surprise."""
        backfill = stored(spec={"throttle": {"bytesPerSecond": 5, "until": "2026-11-26T22:00:00Z"}})

        written = write(backfill, Throttle(rows_per_second=100))

        assert written.patch["spec"] == {"throttle": {"rowsPerSecond": 100, "bytesPerSecond": None, "until": None}}

    def test_field_that_an_older_crd_lacks_is_not_written_without_need(self):
        """`throttle.until` is unknown to CRDs of earlier versions."""
        assert write(stored(), Throttle(rows_per_second=100)).patch["spec"] == {"throttle": {"rowsPerSecond": 100}}

    def test_width_is_written_into_the_member_of_the_strategy(self):
        """Other fields of the member stay, and a spec without a strategy has the default one."""
        replica = stored(spec={"strategy": {"type": "Replica", "replica": {"maxInFlight": 2, "vnodes": 8}}})

        assert write(replica, rescale(max_in_flight=5)).patch["spec"] == {"strategy": {"replica": {"maxInFlight": 5}}}
        assert write(stored(), rescale(max_in_flight=5)).patch["spec"] == {"strategy": {"snapshot": {"maxInFlight": 5}}}
        assert "spec" not in write(replica, rescale(max_in_flight=2)).patch

    def test_each_value_of_a_width_is_written_where_the_spec_has_it(self):
        """Executors belong to no strategy, and a spec whose chunks follow the time has no number of rows."""
        arranged = stored(spec={"strategy": {"type": "Arrangement", "arrangement": {"chunkRows": 9}}})
        every = rescale(max_in_flight=5, split_target_seconds=7, executors=3)

        assert write(stored(), every).patch["spec"] == {
            "strategy": {"snapshot": {"maxInFlight": 5, "splitTargetSeconds": 7}}, "executor": {"instances": 3},
        }  # fmt: skip
        assert write(arranged, rescale(chunk_rows=0)).patch["spec"] == {
            "strategy": {"arrangement": {"chunkRows": None}}
        }
        assert "spec" not in write(stored(spec={"strategy": {"type": "Arrangement"}}), rescale(chunk_rows=0)).patch

    def test_override_is_written_if_the_spec_lacks_one_of_two_values(self):
        """The spec agrees with the first one."""
        backfill = stored(spec={"strategy": {"type": "Snapshot", "snapshot": {"maxInFlight": 3}}})

        def overridden(**values):
            return annotations(write(backfill, rescale(**values), "override")).get(OVERRIDE_ANNOTATION)

        assert json.loads(overridden(max_in_flight=3, executors=4)) == {"maxInFlight": 3, "executors": 4}
        assert overridden(max_in_flight=3) is None

    def test_values_that_a_command_does_not_set_stay_overridden(self):
        """Another user sets the other values."""
        backfill = stored(annotations={OVERRIDE_ANNOTATION: '{"maxInFlight":9,"executors":4}'})

        assert json.loads(annotations(write(backfill, rescale(executors=3)))[OVERRIDE_ANNOTATION]) == {"maxInFlight": 9}
        assert json.loads(annotations(write(backfill, rescale(executors=3), "override"))[OVERRIDE_ANNOTATION]) == {
            "maxInFlight": 9, "executors": 3,
        }  # fmt: skip

    def test_override_of_the_same_field_is_removed_and_other_fields_stay(self):
        """It would take precedence over the spec."""
        annotation = json.dumps({"desiredState": "Paused", "throttle": {"rowsPerSecond": 5}})
        backfill = stored(
            annotations={OVERRIDE_ANNOTATION: annotation, STATE_ANNOTATION: "Paused", SUSPEND_ANNOTATION: "false"}
        )

        written = write(backfill, Resume())

        left = annotations(written)
        assert json.loads(left.pop(OVERRIDE_ANNOTATION)) == {"throttle": {"rowsPerSecond": 5}}
        assert left == {STATE_ANNOTATION: None}

    def test_approval_names_the_plan(self):
        """A later plan is not approved by it."""
        backfill = stored(spec={"approval": "Manual"}, status={"planOf": "3f0c9a1b2d4e5f60"})

        assert write(backfill, Approve()).patch["spec"] == {"approvedPlan": "3f0c9a1b2d4e5f60"}

    @pytest.mark.parametrize(
        ("change", "name"),
        [
            (Retry(), RESTART_ANNOTATION),
            (RunAgain(), REFRESH_ANNOTATION),
            (TakeReceipt(), VERIFY_ANNOTATION),
            (SwitchOver(), SWITCH_ANNOTATION),
            (SwitchOver("Undo"), UNDO_SWITCH_ANNOTATION),
            (SwitchOver("Complete"), COMPLETE_SWITCH_ANNOTATION),
            (RepairTarget(), REPAIR_ANNOTATION),
        ],
    )
    def test_request_is_a_new_value_of_its_annotation(self, change, name):
        """The same value would be the same request."""
        assert annotations(write(stored(), change)) == {name: CLAIM.time}


class TestTheOverride:
    """A GitOps tool would undo an edit of the spec."""

    @pytest.mark.parametrize(
        "owned",
        [
            {"annotations": ARGO},
            {"labels": {"argocd.argoproj.io/instance": "jobs"}},
            {"labels": {"kustomize.toolkit.fluxcd.io/name": "jobs"}},
            {"labels": {"helm.toolkit.fluxcd.io/name": "jobs"}},
            {"annotations": {"meta.helm.sh/release-name": "jobs"}},
            {"labels": {"app.kubernetes.io/managed-by": "Helm"}},
            {"managedFields": [{"manager": "argocd-controller", "fieldsV1": {"f:spec": {}}}]},
            {"managedFields": [{"manager": "kustomize-controller", "fieldsV1": {"f:spec": {}}}]},
        ],
    )
    def test_each_sign_of_a_tool_leads_to_the_override(self, owned):
        """The spec stays as the tool applied it."""
        written = write(stored(**owned), Pause())

        assert "spec" not in written.patch
        assert json.loads(annotations(written)[OVERRIDE_ANNOTATION]) == {
            "desiredState": "Paused",
            "pause": {"scope": "History"},
        }

    @pytest.mark.parametrize(
        "managed",
        [
            [{"manager": "kubectl-client-side-apply", "fieldsV1": {"f:spec": {}}}],
            [{"manager": "argocd-controller", "fieldsV1": {"f:metadata": {}}}],
            "no list", [None], [{"manager": 5, "fieldsV1": None}],
        ],
    )  # fmt: skip
    def test_other_managers_are_no_owners(self, managed):
        """Argo CD may own only a label."""
        assert "spec" in write(stored(managedFields=managed), Pause()).patch

    def test_resume_leaves_no_override_if_the_spec_runs(self):
        """The object is as the tool made it."""
        backfill = stored(annotations=ARGO | {OVERRIDE_ANNOTATION: '{"desiredState":"Paused","pause":{"scope":"All"}}'})

        assert annotations(write(backfill, Resume())) == {OVERRIDE_ANNOTATION: None}

    def test_resume_overrides_a_spec_that_pauses(self):
        """Otherwise it would have no effect."""
        written = write(stored(annotations=ARGO, spec={"desiredState": "Paused"}), Resume())

        assert json.loads(annotations(written)[OVERRIDE_ANNOTATION]) == {"desiredState": "Running"}

    def test_no_limit_overrides_the_limit_of_the_spec(self):
        """An explicit null takes it away."""
        written = write(stored(annotations=ARGO, spec={"throttle": {"rowsPerSecond": 5}}), Throttle())

        assert json.loads(annotations(written)[OVERRIDE_ANNOTATION]) == {"throttle": {"rowsPerSecond": None}}

    def test_other_fields_of_the_override_stay(self):
        """A pause keeps the limit of another user."""
        backfill = stored(annotations=ARGO | {OVERRIDE_ANNOTATION: '{"throttle":{"rowsPerSecond":5}}'})

        text = annotations(write(backfill, Pause("All")))[OVERRIDE_ANNOTATION]

        assert json.loads(text) == {
            "throttle": {"rowsPerSecond": 5},
            "desiredState": "Paused",
            "pause": {"scope": "All"},
        }

    def test_invalid_override_is_replaced_by_the_one_in_force(self):
        """The operator ignores a typo and keeps the previous override; a change must keep it, too."""
        backfill = stored(
            annotations=ARGO | {OVERRIDE_ANNOTATION: '{"throtle":1}'},
            status={"override": {"throttle": {"rowsPerSecond": 5}}},
        )

        text = annotations(write(backfill, Pause()))[OVERRIDE_ANNOTATION]

        assert json.loads(text)["throttle"] == {"rowsPerSecond": 5}

    def test_removed_override_does_not_return(self):
        """The status still shows it until the operator has read the removal."""
        backfill = stored(annotations=ARGO, status={"override": {"suspend": True}})

        assert "suspend" not in json.loads(annotations(write(backfill, Pause()))[OVERRIDE_ANNOTATION])


NOW_MS = 1_795_000_000_000
LATER = "2099-01-01T00:00:00Z"
RATES = st.none() | st.integers(0, 1000)
CONTROLS = st.one_of(
    st.builds(Pause, st.sampled_from(["History", "All"])), st.just(Resume()), st.builds(Throttle, RATES, RATES), st.builds(Throttle, st.integers(0, 9), RATES, st.just(LATER)),
    st.builds(
        rescale,
        max_in_flight=st.none() | st.integers(1, 64), split_target_seconds=st.none() | st.integers(1, 600),
        chunk_rows=st.none() | st.integers(0, 9), executors=st.none() | st.integers(1, 9),
    ),
    st.just(Suspend()), st.just(Unsuspend()),
)  # fmt: skip
EVERYWHERE = {
    "desiredState": st.sampled_from(["Running", "Paused"]), "suspend": st.booleans(),
    "pause": st.sampled_from([{}, {"scope": "All"}, {"scope": "History"}]),
    "throttle": st.sampled_from([{}, {"rowsPerSecond": 7}, {"bytesPerSecond": 9}]),
}  # fmt: skip
OVERRIDES = st.fixed_dictionaries(
    {}, optional=EVERYWHERE | {"maxInFlight": st.just(6), "chunkRows": st.sampled_from([0, 5]), "executors": st.just(3)}
)
SPECS = st.fixed_dictionaries(
    {},
    optional=EVERYWHERE
    | {
        "strategy": st.sampled_from([{}, {"type": "Replica"}, {"type": "Snapshot", "snapshot": {"maxInFlight": 3, "vnodes": 8}}, {"type": "Arrangement", "arrangement": {"chunkRows": 7}}]),
        "executor": st.sampled_from([{}, {"instances": 2}]),
    },
)  # fmt: skip
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        OVERRIDE_ANNOTATION: OVERRIDES.map(json.dumps) | st.sampled_from(["", "{", '{"throtle":1}']),
        STATE_ANNOTATION: st.sampled_from(["Running", "Paused", ""]), SUSPEND_ANNOTATION: st.sampled_from(["true", "false"]),
    },
)  # fmt: skip


class TestALimitWithAnEnd:
    """Afterwards the limit of the spec applies again, so the spec stays."""

    def test_limit_with_an_end_is_an_override(self):
        """In the spec it would replace the earlier limit for good."""
        backfill = stored(spec={"throttle": {"rowsPerSecond": 7}})

        written = write(backfill, Throttle(100, None, LATER))

        assert "spec" not in written.patch
        assert json.loads(annotations(written)[OVERRIDE_ANNOTATION]) == {
            "throttle": {"rowsPerSecond": 100, "until": LATER}
        }
        assert written.reason == "by the override annotation"

    def test_earlier_limit_applies_after_the_end(self):
        """By the operator's own function."""
        before = raw(spec={"throttle": {"rowsPerSecond": 7}})
        after = read_stored(merged(before, write(read_stored(before), Throttle(100, None, LATER)).patch))

        assert controls_of(after, NOW_MS).rows_per_second == 100
        assert controls_of(after, 10**14).rows_per_second == 7


class TestEachWriteHasItsEffect:
    """The oracle is the operator's own function for the desired controls, on the merged object."""

    @given(spec=SPECS, existing=ANNOTATIONS, change=CONTROLS, how=st.sampled_from(["spec", "override"]))
    def test_written_change_is_what_the_operator_wants(self, spec, existing, change, how):
        """For each state of spec and annotations; and only the changed dimension changes."""
        before = raw(spec=spec, annotations=existing)
        assume(refusal(read_stored(before), change) is None)
        before_controls = controls_of(read_stored(before), NOW_MS)

        after = controls_of(read_stored(merged(before, write(read_stored(before), change, how).patch)), NOW_MS)

        dimensions = {
            "pause": after.paused, "limit": (after.rows_per_second, after.bytes_per_second), "suspend": after.suspend,
            "width": after.width,
        }  # fmt: skip
        expected = {
            "pause": before_controls.paused, "limit": (before_controls.rows_per_second, before_controls.bytes_per_second),
            "suspend": before_controls.suspend, "width": before_controls.width,
        }  # fmt: skip
        match change:
            case Pause():
                expected["pause"] = change.scope
            case Resume():
                expected["pause"] = None
            case Throttle():
                expected["limit"] = change.rows_per_second, change.bytes_per_second
            case Rescale():
                expected["width"] = before_controls.width.model_copy(update=change.width.given)
            case _:
                expected["suspend"] = isinstance(change, Suspend)
        assert dimensions == expected
        assert after.override_error in ("", before_controls.override_error)

    @given(spec=SPECS, existing=ANNOTATIONS, change=CONTROLS)
    def test_override_never_touches_the_spec(self, spec, existing, change):
        """A GitOps tool sees no difference."""
        before = raw(spec=spec, annotations=existing)

        assert merged(before, write(read_stored(before), change, "override").patch)["spec"] == SPEC | spec
