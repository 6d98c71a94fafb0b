"""The answer to a command has the state that holds now, the proof, and the command that undoes it."""

from dataclasses import replace

import pytest

from backfill_api.status.progress import Progress
from backfill_api.wire import Command, PauseCommand, RescaleCommand, ThrottleCommand
from backfill_console.commands.acknowledgements import (
    Controls,
    acknowledged,
    changed_controls,
    controls_after,
    controls_of_driver,
    describe_controls,
    undo_arguments,
)

PROGRESS = Progress(attempt=1, percent=8, rows_done=246_015)
AT = "at 8 % (246,015 rows)"


class TestTheState:
    """It names pause, limit and committed rows."""

    @pytest.mark.parametrize(
        ("command", "controls", "state"),
        [
            ("Pause", Controls("History"), f"paused {AT}; changes continue"),
            ("Pause", Controls("All", 5), f"paused {AT}; changes are paused too"),
            ("Resume", Controls(), f"running {AT}, without a limit"),
            ("Resume", Controls(None, 200_000, 5_000_000), f"running {AT}, limited to 200,000 rows/s and 5.0 MB/s"),
            ("Throttle", Controls(None, 0), f"limited to 0 rows/s, so the snapshot is not read {AT}"),
            ("Throttle", Controls("History", 7, None, "2026-11-26T22:10:00Z"), f"limited to 7 rows/s until 2026-11-26T22:10:00Z {AT}; it is paused"),
            ("Throttle", Controls(), f"running without a limit {AT}"),
            ("Rescale", Controls(max_in_flight=1), f"reading at most 1 piece at a time {AT}"),
            ("Rescale", Controls("All", max_in_flight=8), f"reading at most 8 pieces at a time {AT}; it is paused"),
            ("Rescale", Controls(None, split_target_seconds=90, executors=3), f"reading splits of about 1 min 30 s, on 3 executors {AT}"),
            ("Rescale", Controls(None, max_in_flight=4, chunk_rows=5000), f"reading at most 4 pieces at a time, chunks of at most 5,000 rows {AT}"),
            ("Rescale", Controls(None, chunk_rows=0), f"reading chunks of about 4 s {AT}"),
            ("Stop", Controls(), f"the attempt ends at a barrier {AT}"),
            ("Verify", Controls(), f"the driver compares source and target {AT}"),
        ],
    )  # fmt: skip
    def test_each_command_names_what_holds_now(self, command, controls, state):
        """Rule 2 of every screen: the state comes first."""
        assert describe_controls(command, controls, PROGRESS) == state

    def test_an_unknown_progress_is_not_shown(self):
        """A driver that has ended reports none."""
        assert describe_controls("Pause", Controls("History"), None) == "paused; changes continue"
        assert describe_controls("Resume", Controls(), None) == "running without a limit"

    def test_an_automatic_limit_is_named_as_such(self):
        """A user who resumes must know why the job is slow."""
        progress = PROGRESS.model_copy(update={"throttle_rows_per_second": 90, "auto_rows_per_second": 40})

        assert (
            describe_controls("Resume", controls_of_driver(progress), progress)
            == f"running {AT}, limited to 40 rows/s (automatic)"
        )

    def test_a_report_of_before_the_command_does_not_decide(self):
        """The acknowledgement may overtake the report of the driver."""
        before = Controls("History", 5, None, "2026-11-26T22:10:00Z")

        assert controls_after(Command(type="Resume"), before) == Controls(None, 5, None, "2026-11-26T22:10:00Z")
        assert controls_after(Command(type="Pause", pause=PauseCommand(scope="All")), Controls()) == Controls("All")
        limited = Command(type="Throttle", throttle=ThrottleCommand(rows_per_second=9, for_seconds=60))
        assert controls_after(limited, before) == Controls("History", 9, for_seconds=60)
        wider = Command(type="Rescale", rescale=RescaleCommand(max_in_flight=8))
        assert controls_after(wider, before) == replace(before, max_in_flight=8)
        assert controls_after(limited, replace(before, max_in_flight=8)).max_in_flight == 8

    def test_a_width_is_described_by_the_values_that_a_command_changes(self):
        """The others stay, so neither the answer nor the undo contains them."""
        before = Controls(max_in_flight=2, split_target_seconds=4, executors=1)
        slower = Command(type="Rescale", rescale=RescaleCommand(split_target_seconds=9))

        after = controls_after(slower, before)
        assert after == replace(before, split_target_seconds=9)
        assert changed_controls(slower, after) == Controls(split_target_seconds=9)
        assert changed_controls(Command(type="Resume"), before) == Controls()


class TestTheUndo:
    """It restores the controls of before."""

    @pytest.mark.parametrize(
        ("command", "before", "words"),
        [
            ("Pause", Controls(), ("resume",)),
            ("Resume", Controls("History"), ("pause",)),
            ("Resume", Controls("All"), ("pause", "--with-changes")),
            ("Resume", Controls(), ()),
            ("Throttle", Controls(), ("throttle", "none")),
            ("Throttle", Controls(None, 5, 7), ("throttle", "5", "--bytes", "7B")),
            ("Throttle", Controls(None, 5, None, "2026-11-26T22:10:00Z"), ("throttle", "5", "--until", "2026-11-26T22:10:00Z")),
            ("Rescale", Controls(max_in_flight=2), ("rescale", "2")),
            ("Rescale", Controls(executors=2, chunk_rows=0), ("rescale", "--chunk-rows", "0", "--executors", "2")),
            ("Rescale", Controls(max_in_flight=2, split_target_seconds=4), ("rescale", "2", "--split-seconds", "4")),
            ("Rescale", Controls(), ()),
            ("Stop", Controls(), ()),
            ("Verify", Controls(), ()),
        ],
    )  # fmt: skip
    def test_undo_has_the_values_of_before(self, command, before, words):
        """A limit with an end gets its end back, so that it does not stay for ever."""
        assert undo_arguments(command, before) == words


class TestTheSentence:
    """State, proof, undo; parts that are unknown are left out."""

    def test_the_answer_is_one_line(self):
        """As the documentation shows it."""
        answer = acknowledged("paused", proof="epoch 14", seconds=0.84, undo="backfill resume")

        assert answer == "paused. Acknowledged at epoch 14 in 0.8 s. Undo: backfill resume"

    def test_an_unconfirmed_change_is_not_called_acknowledged(self):
        """It is recorded only."""
        assert acknowledged("recorded", following="backfill run -f FILE") == "recorded. Next: backfill run -f FILE"
