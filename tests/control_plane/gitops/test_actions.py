"""Argo CD's actions set the requested state, change only fields that self-heal ignores, and are offered only if they have an effect."""

import pytest
from lupa.lua51 import LuaError
from support.gitops.argo_cd import ArgoCd, run
from support.operators.observations import spec

from backfill_api.names import OVERRIDE_ANNOTATION, RESTART_ANNOTATION, STATE_ANNOTATION, SUSPEND_ANNOTATION
from backfill_core.lifecycle.inputs.desired import desired_of

LIMIT = '"throttle": {"rowsPerSecond": 5}'


def backfill(override=None, conditions=(), **fields):
    """Return a Backfill for Argo CD."""
    annotations = {} if override is None else {"annotations": {OVERRIDE_ANNOTATION: override}}
    return {
        "metadata": {"name": "orders", "generation": 1} | annotations,
        "spec": fields,
        "status": {"conditions": [{"type": condition, "status": "True", "reason": "Some"} for condition in conditions]},
    }


def desired(document):
    """Return the operator's decision for it."""
    controls = desired_of(spec(**document["spec"]), document["metadata"].get("annotations", {}), 0)
    assert controls.override_error == ""
    return controls.paused, controls.suspend, controls.rows_per_second


class TestAnAction:
    @pytest.mark.parametrize("override", [None, "", f"{{{LIMIT}}}", f'{{"pause": {{"scope": "All"}}, {LIMIT}}}'])
    def test_pause_keeps_a_limit(self, override):
        """A temporary limit must not end with a pause."""
        before = backfill(override)
        paused, suspend, rate = desired(ArgoCd().act("pause", before))

        assert (paused, suspend) == ("All" if "scope" in (override or "") else "History", False)
        assert rate == desired(before)[2]

    def test_pause_applies_to_a_job_that_was_resumed_against_git(self):
        """Git suspends the job, and a user resumed it: a pause keeps its pods."""
        resumed = ArgoCd().act("resume", backfill(suspend=True))
        assert ArgoCd().offered(resumed) == {"pause", "suspend"}

        assert desired(ArgoCd().act("pause", resumed))[:2] == ("History", False)

    @pytest.mark.parametrize("given", [{}, {"desiredState": "Paused"}, {"suspend": True}])
    @pytest.mark.parametrize("first", ["pause", "suspend"])
    def test_resume_applies_against_git_and_keeps_a_limit(self, first, given):
        """A limit stays until it is removed."""
        stopped = ArgoCd().act(first, backfill(f"{{{LIMIT}}}", **given))

        assert desired(ArgoCd().act("resume", stopped)) == (None, False, 5)

    def test_resume_leaves_no_override_if_git_agrees(self):
        """A remaining override would hide the next pause in Git."""
        resumed = ArgoCd().act("resume", ArgoCd().act("pause", backfill()))
        resumed["spec"] = {"desiredState": "Paused"}

        assert desired(resumed)[0] == "History"

    def test_suspend_keeps_the_other_overrides(self):
        """A paused job is paused again after the suspension."""
        paused = ArgoCd().act("pause", backfill(f"{{{LIMIT}}}"))

        assert desired(ArgoCd().act("suspend", paused)) == ("History", True, 5)

    def test_retry_requests_a_restart_and_changes_no_spec(self):
        """Self-heal would reset a spec."""
        before = backfill(conditions=("Failed", "Finished"))
        after = ArgoCd().act("retry", before)

        assert after["metadata"]["annotations"][RESTART_ANNOTATION]
        assert after["spec"] == before["spec"]

    @pytest.mark.parametrize("name", ["pause", "resume", "suspend"])
    def test_action_changes_only_the_override(self, name):
        """All other fields belong to Git."""
        before = backfill(desiredState="Paused", suspend=True)
        after = ArgoCd().act(name, before)

        assert after["spec"] == before["spec"]
        assert after["metadata"].pop("annotations").keys() <= {STATE_ANNOTATION, SUSPEND_ANNOTATION}
        assert after["metadata"] == before["metadata"]


OFFERED = {
    "running": (backfill(), {"pause", "suspend"}),
    "paused by Git": (backfill(desiredState="Paused"), {"resume", "suspend"}),
    "paused by an override": (backfill('{"desiredState": "Paused"}', ("Paused",)), {"resume", "suspend"}),
    "paused by Git under a limit": (
        backfill(f"{{{LIMIT}}}", ("Paused",), desiredState="Paused"),
        {"resume", "suspend"},
    ),
    "resumed by an override": (backfill('{"desiredState":"Running"}', desiredState="Paused"), {"pause", "suspend"}),
    "suspended by Git": (backfill(suspend=True), {"resume"}),
    "suspended by an override": (backfill('{"suspend": true}', ("Suspended",)), {"resume"}),
    "failed": (backfill(conditions=("Stalled", "Failed", "Finished")), {"retry"}),
    "complete": (backfill(conditions=("Complete", "Finished")), set()),
    "new": ({"metadata": {"name": "orders"}, "spec": {}}, {"pause", "suspend"}),
}


class TestTheInterpreter:
    @pytest.mark.parametrize("name", ["string", "math", "io", "debug", "coroutine", "python"])
    def test_interpreter_has_the_libraries_of_argo_cd_and_no_more(self, name):
        """130 tests passed on scripts that Argo CD cannot run, because their interpreter opened every library (fault K3)."""
        assert run(f"return {{there = {name} ~= nil}}", {}) == {"there": False}

    @pytest.mark.parametrize(
        "script", ['return ("a"):upper()', 'return require("string")', "return os.getenv", "return os.execute()"]
    )
    def test_strings_have_no_methods_and_os_is_safe(self, script):
        """A method would give access to the library."""
        try:
            assert run(script, {}) is None
        except LuaError:
            return

    def test_dates_can_be_read(self):
        """The scripts use `os` only for that."""
        assert run('return {date = require("os").date("!%Y")}', {})["date"].startswith("20")


class TestWhatIsOffered:
    @pytest.mark.parametrize(("given", "names"), OFFERED.values(), ids=OFFERED.keys())
    def test_action_is_offered_only_if_it_has_an_effect(self, given, names):
        """A button without an effect confuses users."""
        assert ArgoCd().offered(given) == names
