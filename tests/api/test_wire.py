"""Commands, acknowledgements and the progress of a job in the wire format."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from backfill_api.status.conditions import REASONS
from backfill_api.status.status import Progress, ProgressSummary
from backfill_api.wire import CommandRequest
from backfill_core import errors


class TestACommand:
    """Messages are closed and bounded: any process on the machine may send one."""

    @pytest.mark.parametrize(
        "command",
        [
            {"type": "Pause"},
            {"type": "Pause", "pause": {"scope": "All", "force": True}},
            {"type": "Resume"},
            {"type": "Throttle", "throttle": {"rowsPerSecond": None}},
            {"type": "Throttle", "throttle": {"rowsPerSecond": 0, "forSeconds": 1800}},
            {
                "type": "Throttle",
                "throttle": {"rowsPerSecond": 0, "until": "2026-11-26T18:00:00Z", "then": {"rowsPerSecond": 5}},
            },
            {"type": "Verify"},
            {"type": "Stop", "stop": {"force": True}},
        ],
    )
    def test_a_command_round_trips(self, command: dict[str, Any]) -> None:
        """The command line sends it, the operator stores it and the driver executes it: all must read the same command."""
        request = CommandRequest.model_validate({"attempt": 1, "revision": 7, "command": command})

        assert CommandRequest.model_validate_json(request.model_dump_json(by_alias=True)) == request

    @pytest.mark.parametrize(
        ("command", "message"),
        [
            ({"type": "Explode"}, "Pause"),
            ({"type": "Resume", "pause": {}}, "because type is Resume"),
            ({"type": "Throttle"}, "throttle: is required"),
            ({"type": "Throttle", "throttle": {"rowsPerSecond": -1}}, "greater than or equal to 0"),
            ({"type": "Throttle", "throttle": {"rowsPerSecond": True}}, "integer"),
            ({"type": "Throttle", "throttle": {"rowsPerSecond": 1, "forSeconds": 0}}, "greater than or equal to 1"),
            ({"type": "Throttle", "throttle": {"until": "tomorrow"}}, "pattern"),
            ({"type": "Throttle", "throttle": {"until": "2026-02-30T00:00:00Z"}}, "is not in the calendar"),
            (
                {"type": "Throttle", "throttle": {"until": "2026-11-26T18:00:00Z", "forSeconds": 5}},
                "remove one of the two",
            ),
            ({"type": "Throttle", "throttle": {"then": {"rowsPerSecond": 5}}}, "until is missing"),
            ({"type": "Pause", "pause": {"scope": "Some"}}, "History"),
            ({"type": "Stop", "stop": {"now": True}}, "not permitted"),
        ],
    )
    def test_a_wrong_command_is_refused(self, command: dict[str, Any], message: str) -> None:
        """A driver that ignored half of a command would not do what the user requested."""
        with pytest.raises(ValidationError, match=message):
            CommandRequest.model_validate({"attempt": 1, "revision": 7, "command": command})

    @pytest.mark.parametrize("field", ["attempt", "revision"])
    def test_attempts_and_revisions_start_at_one(self, field: str) -> None:
        """0 means that there was no command yet, so a command must be above it."""
        request = {"attempt": 1, "revision": 1, "command": {"type": "Resume"}} | {field: 0}

        with pytest.raises(ValidationError, match=field):
            CommandRequest.model_validate(request)


class TestProgress:
    """The driver's progress and the status have the same fields."""

    def test_the_summary_has_the_field_names_of_progress(self) -> None:
        """The operator copies fields by name, so a renamed field would be lost."""
        assert set(ProgressSummary.model_fields) < set(Progress.model_fields)

    def test_the_grid_is_bounded(self) -> None:
        """A grid that grows with the table would not fit a status or a terminal."""
        Progress(grid=(100,) * 64)
        with pytest.raises(ValidationError):
            Progress(grid=(0,) * 65)


class TestReasons:
    """Users write alerts on reasons."""

    def test_reasons_of_every_driver_error_are_listed(self) -> None:
        """A condition with an undocumented reason does not help."""
        raised = {
            error.reason
            for error in vars(errors).values()
            if isinstance(error, type) and issubclass(error, errors.BackfillError)
        }

        assert raised <= set(REASONS)
