"""Times at which a run logs a line, and the fields of its lines."""

import json

from backfill_api.status.progress import Progress
from backfill_spark.driver.lines import POD_EVERY_S, Lines, json_line, progress_document, turning

COPIES = Progress(attempt=1, phase="Snapshot", step="Copy", rows_done=10, rows_total=100, grid=(50, 0), reason="copies")


def logged(*reports):
    """Return the lines for these progress reports, which all arrive within a second."""
    lines_logged = []
    lines = Lines(
        lambda progress: lines_logged.append(progress_document("a/b", progress, 1.5, grid=False)), POD_EVERY_S
    )
    for report in reports:
        lines.see(report)
    lines.close()
    return lines_logged


class TestALogOfDays:
    def test_the_log_has_a_line_for_each_change_of_state_only(self):
        """Four lines a second hid the events. None of these reports deserves a line in the first ten seconds."""
        busy = [
            COPIES.model_copy(update={"rows_done": 10 + at, "quiet": at % 2 == 0, "warnings": (f"behind by {at} versions",)})
            for at in range(50)
        ]  # fmt: skip
        assert len(logged(*busy)) == 1

    def test_a_change_of_state_is_logged_at_once(self):
        """It is a step, the first rows, a command, or a warning."""
        turns = (
            {"rows_done": 0},
            {},
            {"step": "Receipt"},
            {"paused": "History"},
            {"paused": "History", "quiet": True},
            {"warnings": ("others changed the target",)},
            {"throttle_rows_per_second": 5},
        )
        logged_lines = logged(*(COPIES.model_copy(update=fields) for fields in turns))
        assert len(logged_lines) == len(turns)

    def test_each_line_has_its_time_and_no_grid(self):
        """A log needs times; the bar and the colours are for a screen."""
        (fields,) = logged(COPIES)
        assert json.loads(json_line(fields)) == fields
        assert fields["time"].endswith("Z")
        assert (fields["jobId"], fields["elapsedSeconds"], fields["rowsDone"], "grid" in fields) == (
            "a/b",
            1.5,
            10,
            False,
        )

    def test_a_new_reason_is_a_change_only_before_the_first_attempt(self):
        """Later, the reason changes with every number in it."""
        starting = [Progress(reason=reason) for reason in ("starting Spark", "looking at the tables")]
        assert turning(starting[0]) != turning(starting[1])
        assert turning(COPIES) == turning(COPIES.model_copy(update={"reason": "waits for the rate"}))
