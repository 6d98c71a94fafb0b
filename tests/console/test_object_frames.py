"""The block of a Backfill in a cluster: attempts, pods, commands, events, and the rows that a low terminal leaves out."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.console.frames import CLUSTER, NOW, PAUSE_ALL, PODS, SPEC, STATUS

from backfill_api.plain_text import printable
from backfill_api.status.plan import Plan, PlannedFiles
from backfill_api.status.receipt import ReceiptSummary
from backfill_api.status.status import BackfillStatus, RefreshTimes
from backfill_api.wire import Command, RescaleCommand, ThrottleCommand
from backfill_console.block import block_lines
from backfill_console.frame import CommandNote, EventNote, Table
from backfill_console.object_frames import command_line, frame_of_object
from backfill_console.segments import width_of

PICTURES = Path(__file__).parent / "pictures"


@pytest.fixture(autouse=True)
def utc(utc):
    """Times are shown in the local time zone, which differs between machines."""


def drawn(frame, columns=100, lines=None):
    """Return the lines of a block."""
    return [shown.text for shown in block_lines(frame, columns, lines)]


class TestTheBlockOfAnObject:
    """The user on call sees the job, its pods, who changed it, and why it is not faster."""

    @pytest.mark.parametrize(("columns", "lines"), [(100, 26), (80, 24), (60, 8), (45, 40)])
    def test_the_block_matches_its_picture(self, columns, lines):
        """Review a change of the layout by eye: `BACKFILL_DRAW=1` rewrites the pictures."""
        shown = drawn(CLUSTER, columns, lines)
        picture = PICTURES / f"cluster-{columns}x{lines}.txt"
        if os.environ.get("BACKFILL_DRAW"):
            picture.write_text("\n".join(shown) + "\n")

        assert shown == picture.read_text().splitlines()
        assert len(shown) <= lines
        assert max(map(len, shown)) <= columns

    @pytest.mark.parametrize(
        ("lines", "kept", "left_out"),
        [
            (40, ["events", "commands", "NAME", "p pause", "start ✔", "commit"], []),
            (23, ["events", "commands", "NAME", "commit"], ["p pause"]),
            (22, ["commands", "NAME", "commit"], ["p pause", "events"]),
            (20, ["└─ receipt", "commit"], ["p pause", "events", "commands"]),
            (16, ["NAME", "├─ attempt 2", "commit"], ["commands", "└─ receipt"]),
            (8, ["rate", "lag", "rows", "limit"], ["events", "commands", "NAME"]),
            (4, ["shop/orders", "throttled by command", "! warning: source keeps"], ["rate", "start ✔"]),
        ],
    )
    def test_a_low_terminal_leaves_out_the_last_rows_first(self, lines, kept, left_out):
        """Keys, events, commands and the tree go before any number of the job."""
        shown = "\n".join(drawn(CLUSTER, lines=lines))

        assert [fact for fact in kept if fact not in shown] == []
        assert [fact for fact in left_out if fact in shown] == []

    @pytest.mark.parametrize("columns", [100, 60, 30])
    def test_no_text_of_others_controls_the_terminal(self, columns):
        """Names, reasons, events and notes come from other programs: an escape code could clear the screen, or hide a warning."""
        bad = "a\x1b[2J\r\n\u202eb"
        pods = [replace(PODS[0], name=bad, status=bad, info=bad)]
        progress = STATUS.progress.model_copy(update={"reason": bad})
        frame = frame_of_object(
            bad,
            bad,
            SPEC,
            STATUS.model_copy(update={"progress": progress}),
            now=NOW,
            pods=pods,
            events=[EventNote(bad, bad)],
        )
        frame = replace(
            frame,
            warnings=(bad,),
            plan=bad,
            note=bad,
            source=Table(bad, bad),
            commands=(CommandNote(bad, by=bad, note=bad),),
        )
        for shown in drawn(frame, columns):
            assert printable(shown) == shown
            assert width_of(shown) <= columns

    def test_an_object_without_a_status_is_pending(self):
        """The operator may not have seen it yet."""
        shown = drawn(frame_of_object("shop", "orders", SPEC, BackfillStatus(), now=NOW))

        assert shown[0] == "shop/orders  ◌ Pending"
        assert not any("%" in line or "rows/s" in line for line in shown)

    @pytest.mark.parametrize(
        ("waits", "line"),
        [
            ("", "refresh  next 2027-01-16 01:00:00"),
            ("Suspended", "refresh  next 2027-01-16 01:00:00 waits: Suspended"),
        ],
    )
    def test_a_schedule_shows_its_next_time(self, waits, line):
        """A user sees that a finished job runs again, and what holds it."""
        times = RefreshTimes(of="0 2 * * * Europe/Berlin", next="2027-01-16T01:00:00Z", waits=waits)
        scheduled = STATUS.model_copy(update={"phase": "Succeeded", "refresh_times": times})
        forged = STATUS.model_copy(update={"refresh_times": times.model_copy(update={"next": "soon"})})

        assert any(line in shown for shown in drawn(frame_of_object("s", "o", SPEC, scheduled, now=NOW)))
        assert not any("soon" in shown for shown in drawn(frame_of_object("s", "o", SPEC, forged, now=NOW)))

    def test_a_job_without_an_estimate_shows_no_end(self):
        """An unmeasured time would be a guess."""
        progress = STATUS.progress.model_copy(update={"eta": None, "eta_seconds": None})
        shown = drawn(frame_of_object("s", "o", SPEC, STATUS.model_copy(update={"progress": progress}), now=NOW))

        assert not any("ETA" in line for line in shown)
        assert any("ETA 21:49, in 12 min (9 min to 18 min)" in line for line in drawn(CLUSTER))

    def test_a_job_that_waits_shows_its_plan_and_no_bars(self):
        """0 % of 0 rows is no measurement."""
        plan = Plan(
            rows=98_000_000, bytes=3 * 10**9, files=412, splits=98, estimated_seconds=1080, estimated_seconds_low=900,
            estimated_seconds_high=1300, ways=(PlannedFiles(way="Whole", files=410), PlannedFiles(way="Decoded", files=2)),
        )  # fmt: skip
        waiting = STATUS.model_copy(update={"phase": "AwaitingApproval", "progress": None, "plan": plan})
        shown = drawn(frame_of_object("shop", "orders", SPEC, waiting, now=NOW))

        assert shown[0].startswith("shop/orders  ◌ AwaitingApproval")
        assert not any(line.startswith(("job ", "rows ")) for line in shown)
        assert "plan     98,000,000 in 412 files, 3.0 GB: 410 copied byte by byte, 2 decoded; about 18 min" in shown

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Suspended", "Retrying"])
    def test_a_job_without_a_driver_has_no_rate_and_no_end(self, phase):
        """The last report is old, and its counts still hold."""
        ended = STATUS.model_copy(update={"phase": phase, "attempt": None})
        shown = drawn(frame_of_object("shop", "orders", SPEC, ended, now=NOW))

        assert not any(word in line for line in shown for word in ("ETA", "82,410 rows/s", "lag "))
        assert any("61,204,118 of 98,000,000 rows" in line for line in shown)
        assert any("2026-11-21 21:37:00" in line for line in shown)

    def test_a_failed_job_shows_its_attempts(self):
        """No attempt runs, and the last ones with their reasons stay."""
        failed = STATUS.model_copy(update={"phase": "Failed", "attempt": None})
        shown = drawn(frame_of_object("shop", "orders", SPEC, failed, now=NOW))

        assert shown[0].startswith("shop/orders  ✖ Failed")
        assert any("attempt 1" in line and "✖ OOMKilled" in line and "exit 137" in line for line in shown)

    @pytest.mark.parametrize(
        ("fields", "state"),
        [({}, "✔ equal"), ({"mismatches": 2}, "✖ differs"), ({"complete": False}, "✔ equal so far")],
    )
    def test_the_tree_shows_the_newest_receipt(self, fields, state):
        """A partial receipt is no proof of all rows."""
        receipt = ReceiptSummary(target_version=4, rows=5, **fields)
        shown = drawn(
            frame_of_object("s", "o", SPEC, STATUS.model_copy(update={"receipt": receipt}), now=NOW, pods=PODS)
        )

        assert any(
            line.startswith("└─ receipt") and line.split("Receipt")[1].strip().startswith(state) for line in shown
        )


class TestCommandLines:
    """A command is shown as a user types it."""

    @pytest.mark.parametrize(
        ("command", "text"),
        [
            (Command(type="Pause"), "pause"),
            (PAUSE_ALL, "pause --with-changes"),
            (Command(type="Resume"), "resume"),
            (
                Command(type="Throttle", throttle=ThrottleCommand(rows_per_second=5, for_seconds=60)),
                "throttle 5 --for 1m",
            ),
            (
                Command(type="Throttle", throttle=ThrottleCommand(rows_per_second=5, for_seconds=61)),
                "throttle 5 --for 61s",
            ),
            (Command(type="Throttle", throttle=ThrottleCommand(bytes_per_second=5)), "throttle --bytes 5B"),
            (Command(type="Throttle", throttle=ThrottleCommand()), "throttle none"),
            (Command(type="Rescale", rescale=RescaleCommand(max_in_flight=8)), "rescale 8"),
            (
                Command(type="Rescale", rescale=RescaleCommand(max_in_flight=8, chunk_rows=0, executors=3)),
                "rescale 8 --chunk-rows 0 --executors 3",
            ),
            (Command(type="Rescale", rescale=RescaleCommand(split_target_seconds=9)), "rescale --split-seconds 9"),
        ],
    )
    def test_a_command_can_be_copied(self, command, text):
        """The same words give the same command again."""
        assert command_line(command) == text
