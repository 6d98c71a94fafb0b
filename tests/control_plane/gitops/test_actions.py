"""Argo CD's actions: each leads where it says, by what self-heal leaves alone, and is offered only where it does something."""

import pytest
from lupa.lua51 import LuaError
from support.gitops.argo_cd import ArgoCd, run
from support.operators.observations import spec

from backfill_api.names import OVERRIDE_ANNOTATION, RESTART_ANNOTATION, STATE_ANNOTATION, SUSPEND_ANNOTATION
from backfill_core.lifecycle.inputs.desired import desired_of

LIMIT = '"throttle": {"rowsPerSecond": 5}'


def backfill(override=None, conditions=(), **fields):
    """Return a Backfill as Argo CD sees it."""
    annotations = {} if override is None else {"annotations": {OVERRIDE_ANNOTATION: override}}
    return {
        "metadata": {"name": "orders", "generation": 1} | annotations,
        "spec": fields,
        "status": {"conditions": [{"type": one, "status": "True", "reason": "Some"} for one in conditions]},
    }


def desired(one):
    """Return what the operator makes of it."""
    found = desired_of(spec(**one["spec"]), one["metadata"].get("annotations", {}))
    assert found.override_error == ""
    return found.paused, found.suspend, found.rows_per_second


class TestAnAction:
    @pytest.mark.parametrize("override", [None, "", f"{{{LIMIT}}}", f'{{"pause": {{"scope": "All"}}, {LIMIT}}}'])
    def test_pauses_and_keeps_a_limit(self, override):
        """A limit of the night must not end with a pause."""
        before = backfill(override)
        paused, suspend, rate = desired(ArgoCd().act("pause", before))

        assert (paused, suspend) == ("All" if "scope" in (override or "") else "History", False)
        assert rate == desired(before)[2]

    def test_pauses_what_was_resumed_above_git(self):
        """Git says suspend, and a person resumed it: a pause keeps the pods, it does not give them up."""
        resumed = ArgoCd().act("resume", backfill(suspend=True))
        assert ArgoCd().offered(resumed) == {"pause", "suspend"}

        assert desired(ArgoCd().act("pause", resumed))[:2] == ("History", False)

    @pytest.mark.parametrize("given", [{}, {"desiredState": "Paused"}, {"suspend": True}])
    @pytest.mark.parametrize("first", ["pause", "suspend"])
    def test_resumes_whatever_git_says_and_keeps_a_limit(self, first, given):
        """The button says resume; a limit stays until it is removed."""
        stopped = ArgoCd().act(first, backfill(f"{{{LIMIT}}}", **given))

        assert desired(ArgoCd().act("resume", stopped)) == (None, False, 5)

    def test_of_resuming_leaves_git_in_force_where_it_wants_the_same(self):
        """An override that stays would hide the next pause in Git."""
        resumed = ArgoCd().act("resume", ArgoCd().act("pause", backfill()))
        resumed["spec"] = {"desiredState": "Paused"}

        assert desired(resumed)[0] == "History"

    def test_suspends_and_keeps_the_rest(self):
        """What was paused is paused when it comes back."""
        paused = ArgoCd().act("pause", backfill(f"{{{LIMIT}}}"))

        assert desired(ArgoCd().act("suspend", paused)) == ("History", True, 5)

    def test_of_retrying_asks_for_a_restart_and_changes_no_spec(self):
        """Self-heal would set a spec back."""
        before = backfill(conditions=("Failed", "Finished"))
        after = ArgoCd().act("retry", before)

        assert after["metadata"]["annotations"][RESTART_ANNOTATION]
        assert after["spec"] == before["spec"]

    @pytest.mark.parametrize("name", ["pause", "resume", "suspend"])
    def test_changes_nothing_but_the_override(self, name):
        """Everything else is Git's."""
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
    def test_has_the_libraries_of_argo_cd_and_no_more(self, name):
        """130 tests passed on scripts that Argo CD cannot run: their interpreter opened every library (fault K3)."""
        assert run(f"return {{there = {name} ~= nil}}", {}) == {"there": False}

    @pytest.mark.parametrize(
        "script", ['return ("a"):upper()', 'return require("string")', "return os.getenv", "return os.execute()"]
    )
    def test_texts_have_no_methods_and_os_is_safe(self, script):
        """A method would be the library by another way."""
        try:
            assert run(script, {}) is None
        except LuaError:
            return

    def test_dates_can_be_read(self):
        """That is what `os` is there for."""
        assert run('return {date = require("os").date("!%Y")}', {})["date"].startswith("20")


class TestWhatIsOffered:
    @pytest.mark.parametrize(("given", "names"), OFFERED.values(), ids=OFFERED.keys())
    def test_is_what_would_do_something(self, given, names):
        """A button without an effect is a riddle."""
        assert ArgoCd().offered(given) == names
