"""A value of a width that cannot change is refused before anything is written."""

import json

import pytest
from click.testing import CliRunner
from support.plugin.objects import stored

from backfill_api.names import OVERRIDE_ANNOTATION
from backfill_api.spec.change_claim import ChangeClaim
from backfill_api.spec.override import WIDTH_FIELDS, Width
from backfill_core.command_errors import CommandRefusedError
from backfill_kubectl.commands.control import rescale
from backfill_kubectl.decisions.changes import Pause, Rescale, Throttle
from backfill_kubectl.decisions.refusals import refusal
from backfill_kubectl.decisions.writes import decide_write

ALONE, BY_LOAD = {"executor": {"instances": 0}}, {"executor": {"dynamic": {"min": 1, "max": 3}}}


class TestAFixedWidth:
    """The message names each value with its reason."""

    @pytest.mark.parametrize(
        ("spec", "width", "reason"),
        [
            (ALONE, {"executors": 3}, "executors cannot change: executor.instances is 0, so the driver reads all rows itself"),
            (BY_LOAD, {"executors": 3}, "executors cannot change: their number follows the load"),
            ({"queue": "team"}, {"executors": 3}, "executors cannot change: the queue admitted the driver"),
            ({}, {"chunk_rows": 0}, "chunkRows cannot change: strategy Snapshot has no chunkRows"),
            (
                ALONE,
                {"max_in_flight": 4, "chunk_rows": 5, "executors": 3},
                "chunkRows cannot change: strategy Snapshot has no chunkRows; executors cannot change: executor.instances is 0",
            ),
        ],
    )  # fmt: skip
    def test_command_is_refused_as_a_whole(self, spec, width, reason):
        """A part of it would be a surprise."""
        refused = refusal(stored(spec=spec), Rescale(Width(**width)))

        assert isinstance(refused, CommandRefusedError)
        assert f"shop/orders: {reason}" in str(refused)
        assert "maxInFlight" not in str(refused)

    @pytest.mark.parametrize("spec", [{}, ALONE, {"queue": "team"}, {"strategy": {"type": "New"}}])
    def test_values_that_can_change_are_not_refused(self, spec):
        """A spec that only a newer version can read is not refused either: its operator answers."""
        assert refusal(stored(spec=spec), Rescale(Width(max_in_flight=4))) is None


class TestAnOverrideWithAValueThatIsFixedNow:
    """An edit of the spec fixed a value of the override in force."""

    @pytest.mark.parametrize(
        "change", [Pause("History"), Rescale(Width(max_in_flight=4)), Throttle(rows_per_second=10)]
    )
    @pytest.mark.parametrize("how", ["spec", "override", None])
    def test_each_command_removes_it(self, change, how):
        """Otherwise the operator would report it after each command."""
        held = {OVERRIDE_ANNOTATION: '{"executors":3,"maxInFlight":2,"suspend":false}'}
        before = stored(spec=BY_LOAD, annotations=held)

        patch = decide_write(before, change, how=how, claim=ChangeClaim(time="2026-11-28T10:00:00Z")).patch

        text = patch["metadata"]["annotations"][OVERRIDE_ANNOTATION]
        assert "executors" not in json.loads(text)
        assert "suspend" in json.loads(text)


class TestTheCommand:
    """A width is given by at least one of its values, within its bounds."""

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "give MAX_IN_FLIGHT, --split-seconds, --chunk-rows or --executors"),
            (["0"], "0 is not in the range 1<=x<=64"),
            (["--split-seconds", "601"], "601 is not in the range 1<=x<=600"),
            (["--chunk-rows", "-1"], "-1 is not in the range 0<=x<=1000000000"),
            (["--executors", "0"], "0 is not in the range 1<=x<=10000"),
        ],
    )
    def test_value_beyond_its_bounds_is_an_error_of_usage(self, arguments, message):
        """No request is sent."""
        result = CliRunner().invoke(rescale, ["orders", *arguments])

        assert result.exit_code == 2
        assert message in result.output

    @pytest.mark.parametrize("name", WIDTH_FIELDS)
    def test_bounds_are_those_of_the_spec(self, name):
        """The operator ignores an override with a value beyond them."""
        (given,) = [parameter.type for parameter in rescale.params if parameter.name == name]

        assert Width(**{name: given.min}).given | Width(**{name: given.max}).given == {name: given.max}
        for beyond in (given.min - 1, given.max + 1):
            with pytest.raises(ValueError, match="should be"):
                Width(**{name: beyond})
