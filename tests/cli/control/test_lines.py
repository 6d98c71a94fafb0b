"""How often a run says something, and what stands in its lines."""

import json

from backfill_api.status.progress import Progress
from backfill_spark.driver.lines import POD_EVERY_S, Lines, json_line, progress_words, turning

COPIES = Progress(attempt=1, phase="Snapshot", step="Copy", rows_done=10, rows_total=100, grid=(50, 0), reason="copies")


def said(*looks):
    """What is said of these looks, which all come within a moment."""
    heard = []
    lines = Lines(lambda progress: heard.append(progress_words("a/b", progress, 1.5, grid=False)), POD_EVERY_S)
    for one in looks:
        lines.see(one)
    lines.close()
    return heard


class TestALogOfDays:
    def test_has_a_line_for_what_turns_and_for_nothing_else(self):
        """Four lines a second hid what happened: nothing of these is worth one before ten seconds are over."""
        busy = [
            COPIES.model_copy(update={"rows_done": 10 + at, "quiet": at % 2 == 0, "warnings": (f"behind by {at} versions",)})
            for at in range(50)
        ]  # fmt: skip
        assert len(said(*busy)) == 1

    def test_what_turns_is_said_at_once(self):
        """A step, the first rows, a command, a warning."""
        turns = (
            {"rows_done": 0},
            {},
            {"step": "Receipt"},
            {"paused": "History"},
            {"paused": "History", "quiet": True},
            {"warnings": ("others changed the target",)},
            {"throttle_rows_per_second": 5},
        )
        heard = said(*(COPIES.model_copy(update=one) for one in turns))
        assert len(heard) == len(turns)

    def test_each_line_has_its_time_and_no_grid(self):
        """A log needs times; the bar and the colours are for a screen."""
        (words,) = said(COPIES)
        assert json.loads(json_line(words)) == words
        assert words["time"].endswith("Z")
        assert (words["jobId"], words["elapsedSeconds"], words["rowsDone"], "grid" in words) == ("a/b", 1.5, 10, False)

    def test_before_there_is_an_attempt_the_reason_is_the_step(self):
        """Later it moves with every number in it."""
        starting = [Progress(reason=reason) for reason in ("starting Spark", "looking at the tables")]
        assert turning(starting[0]) != turning(starting[1])
        assert turning(COPIES) == turning(COPIES.model_copy(update={"reason": "waits for the rate"}))
