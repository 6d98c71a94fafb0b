"""The terminal shows the facts that a user needs."""

import io
import os
import re
import time
from pathlib import Path

import pytest
from rich.console import Console
from support.console.rendered import text

from backfill.formatting import one_line
from backfill_api.status.plan import Plan
from backfill_api.status.progress import Progress, Watermark
from backfill_api.status.receipt import CutOff, FileMismatch, Mismatch, PartitionReceipt, Receipt
from backfill_api.status.source_head import SourceHead
from backfill_api.wire import Ack
from backfill_cli.commands.run import STOPPING
from backfill_cli.terminal.plan_view import show_plan
from backfill_cli.terminal.view import SHADES, partition_rows, show_grid, show_progress, show_receipt

BUSY = Progress(
    attempt=2, epoch=41, phase="Snapshot", percent=36, rows_total=3_000_000, rows_done=1_089_000, changes_done=120,
    rows_per_second=198_400, lag_versions=7, lag_seconds=14, eta_seconds=95, eta_seconds_low=80, eta_seconds_high=130,
    reason="throttled to 200,000 rows/s by command (revision 3), for 412 s more", throttle_rows_per_second=200_000,
    throttle_until="2026-11-21T12:30:00Z", revision=3, table_version=52, seal_ms_p50=84, seal_ms_p99=211,
    grid=(100,) * 23 + (40,) + (0,) * 40,
)  # fmt: skip

ARRANGED = BUSY.model_copy(
    update={
        "phase": "Reading", "reason": "merging the changes of versions 8 to 11", "throttle_rows_per_second": None,
        "throttle_until": None, "grid": (100,) * 23 + (40,) + (0,) * 40,
        "watermark": Watermark(column="ordered_at", direction="Descending", value="2026-03-01T04:00:00Z"),
        "position": "rows down to ordered_at = 2026-03-01T04:00:00Z, order_id = 1089211",
    }
)  # fmt: skip

AT = "2026-11-21T12:30:00Z"

PICTURES = Path(__file__).parent / "pictures"


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    """Times are shown in the local time zone, which differs between machines."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class TestTheTitle:
    """The title shows the current step, or the end (fault U18)."""

    @pytest.mark.parametrize(
        ("fields", "title"),
        [
            ({"phase": "Live", "finished": True, "percent": 100}, "complete"),
            ({"phase": "Live", "step": "Receipt"}, "comparing source and target"),
            ({"phase": "CatchUp", "step": "KeyProof"}, "proving the key"),
            ({"phase": "Live"}, "following changes"),
        ],
    )
    def test_the_title_shows_the_current_step(self, fields, title):
        """A complete job used to be shown as following changes."""
        shown = text(show_progress("j", BUSY.model_copy(update=fields))).splitlines()[0]

        assert f"attempt 2  {title}" in shown

    def test_the_title_of_a_stopped_job_shows_how_to_resume(self):
        """Unknown values are not shown as 0 or `none` (fault U15)."""
        stored = Progress(attempt=2, epoch=41, percent=36, rows_done=1_089_000, last_commit_time=AT, phase="Reading")
        shown = text(show_progress("j", stored, resting="stopped; `backfill run` resumes it"))

        assert "attempt 2  stopped; `backfill run` resumes it" in shown.splitlines()[0]
        assert "2026-11-21 12:30:00" in shown
        assert "1,089,000 rows" in shown
        assert " of 0" not in shown
        assert re.search(r"lag +- ", shown)

    @pytest.mark.parametrize("shown", ["running", "caught up", "plan"])
    def test_the_title_has_the_colour_of_text(self, shown):
        """The blue of many terminals cannot be read on black; the border is no text (faults U19 to U29)."""
        plan = Plan(
            rows=1, bytes=1, files=1, splits=1, estimated_seconds=1, estimated_seconds_low=1, estimated_seconds_high=1
        )
        live = BUSY.model_copy(update={"caught_up": shown == "caught up"})
        console = Console(width=80, force_terminal=True, color_system="standard", file=io.StringIO())
        title = next(
            iter(console.render_lines(show_plan("job", plan) if shown == "plan" else show_progress("job", live)))
        )
        colours = {
            segment.style.color.name
            for segment in title
            if segment.text.strip(" ─╭╮") and segment.style and segment.style.color
        }

        assert colours == {"default"}
        assert "blue" not in {segment.style.color.name for segment in title if segment.style and segment.style.color}

    @pytest.mark.parametrize(
        ("columns", "title"),
        [
            (80, "default/orders  attempt 2  reading the snapshot  42 s"),
            (56, "default/orders  attempt 2  reading the snapshot"),
            (50, "default/orders  reading the snapshot"),
            (40, "default/ord…  reading the snapshot"),
            (26, "default/orders"),
            (18, "default/ord…"),
        ],
    )
    def test_the_title_of_a_narrow_terminal_omits_whole_parts(self, columns, title):
        """`reading the sn` is no step (faults U19 to U29)."""
        drawn = text(show_progress("default/orders", BUSY, elapsed_s=42.3), columns).splitlines()[0]

        assert drawn.strip("╭╮─ ") == title


class TestARunningJob:
    @pytest.mark.parametrize(
        "fact",
        [
            "demo/orders", "attempt 2", "reading the snapshot", "42 s", "36 %", "1,089,000 of 3,000,000 rows", "198,400 rows/s",
            "200,000 rows/s until", "1 min 35 s (1 min 20 s to 2 min 10 s)", "epoch 41, committed as version 52",
            "84 ms, p99 211 ms", "7 versions, 14 s", "120 applied", "running",
            "throttled to 200,000 rows/s by command (revision 3), for 412 s more", "revision 3 applied at epoch 39",
        ],
    )  # fmt: skip
    def test_the_block_shows_each_fact(self, fact):
        """Each fact answers a question of a user on call."""
        assert fact in text(
            show_progress(
                "demo/orders", BUSY, acks=[Ack(attempt=2, epoch=39, revision=3, outcome="Applied")], elapsed_s=42.3
            )
        )

    @pytest.mark.parametrize("name", ["running", "arrangement"])
    @pytest.mark.parametrize("lines", [24, 8])
    @pytest.mark.parametrize("columns", [60, 80, 120])
    def test_the_block_matches_its_picture(self, columns, lines, name):
        """At every size, names and numbers are whole, the reason stays, and no line wraps or is cut off at the bottom.

        Review a change of the layout by eye: `BACKFILL_DRAW=1` rewrites the pictures.
        """
        progress = {"running": BUSY, "arrangement": ARRANGED}[name]
        drawn = text(
            show_progress("demo/orders", progress, note=STOPPING if lines == 8 else "", elapsed_s=42.3, lines=lines),
            columns,
        )
        picture = PICTURES / f"{name}-{columns}x{lines}.txt"
        if os.environ.get("BACKFILL_DRAW"):
            picture.write_text(drawn)

        assert drawn == picture.read_text()
        assert max(len(line) for line in drawn.splitlines()) <= columns
        assert len(drawn.splitlines()) <= lines

    @pytest.mark.parametrize("lines", [1, 2, 3, 5])
    def test_a_very_low_terminal_shows_the_bar_and_the_reason(self, lines):
        """Users keep a pane of three lines open all day."""
        drawn = text(show_progress("demo/orders", BUSY, lines=lines), 60).splitlines()

        assert len(drawn) <= lines
        assert any("36 %" in line for line in drawn)
        assert lines < 3 or any(line.startswith("throttled to") for line in drawn)

    @pytest.mark.parametrize("columns", [10, 20, 40, 59, 97])
    def test_a_narrow_terminal_wraps_no_line(self, columns):
        """A line that wraps is drawn twice."""
        drawn = text(show_progress("demo/orders", BUSY, lines=24), columns).splitlines()

        assert max(len(line) for line in drawn) <= columns

    @pytest.mark.parametrize("columns", range(24, 60, 5))
    def test_a_narrow_terminal_cuts_no_number(self, columns):
        """A truncated number is another number, and a truncated name is useless (faults U19 to U29)."""
        drawn, wide = (text(show_progress("demo/orders", BUSY, lines=24), width) for width in (columns, 200))
        cut, whole = ({word.strip(",.:") for word in re.findall(r"[\w:.,/]+", shown)} for shown in (drawn, wide))

        assert cut <= whole

    def test_a_paused_job_shows_whether_work_is_still_ending(self):
        """Paused and quiet differ: tasks may still be running."""
        held = BUSY.model_copy(update={"paused": "All", "quiet": False})
        assert "everything paused" in text(show_progress("j", held))
        quiet = BUSY.model_copy(update={"paused": "History", "quiet": True})
        assert "snapshot paused, quiet" in text(show_progress("j", quiet))

    def test_a_starting_job_shows_no_numbers(self):
        """Spark takes seconds to start; zeros must not look like measurements."""
        shown = text(show_progress("j", Progress(reason="starting Spark"), elapsed_s=7.2, step_s=3.1))
        assert "starting Spark  3 s" in shown
        assert "starting  7 s" in shown
        assert [word for word in ("attempt", "0 of 0", "limit", "epoch") if word in shown] == []
        assert one_line(Progress(reason="starting Spark"), elapsed_s=7.2) == "starting Spark, running for 7 s"

    def test_markup_in_names_is_text(self):
        """A table may be named like a colour; rich must not remove its name."""
        shown = text(show_progress("[red]job[/]", BUSY.model_copy(update={"reason": "[bold]x[/] y"})))
        assert "[bold]x[/] y" in shown
        assert "[red]job[/]" in shown

    def test_the_position_in_an_order_is_shown(self):
        """This is the key that row-by-row reading has reached, or else the value that all files of the snapshot have passed."""
        by_file = ARRANGED.model_copy(update={"position": ""})

        assert "in the target: rows down to ordered_at = 2026-03-01T04:00:00Z, order_id = 1089211" in one_line(ARRANGED)
        assert "everything after ordered_at 2026-03-01T04:00:00Z is there" in one_line(by_file)
        assert "everything after ordered_at 2026-03-01T04:00:00Z is there" in text(show_progress("j", by_file))

    def test_one_line_summarises_the_job_for_logs(self):
        """A log has no screen."""
        line = one_line(BUSY)
        assert "\n" not in line
        for fact in (
            "Snapshot 36 %",
            "1,089,000 of 3,000,000",
            "epoch 41",
            "lag 7 versions",
            "ETA 1 min",
            "revision 3",
        ):
            assert fact in line


class TestTheBars:
    """Time and rows are two measures: one bar with the label of the other is wrong most of the time (fault U5)."""

    @pytest.mark.parametrize(("percent", "done"), [(22, 0), (72, 3_002_000), (36, 1_089_000)])
    def test_each_bar_has_a_name(self, percent, done):
        """`22 %  0 of 3,000,000 rows` and `72 %  3,002,000 of 3,002,000 rows` used to be one bar each."""
        progress = BUSY.model_copy(update={"percent": percent, "rows_done": done, "rows_total": 3_002_000})
        job, rows = (line.strip(" │").split() for line in text(show_progress("j", progress)).splitlines()[1:3])

        assert (job[0], job[-2:]) == ("job", [f"{percent}", "%"])
        assert (rows[0], rows[-4:]) == ("rows", [f"{done:,}", "of", "3,002,000", "rows"])


class TestTheGrid:
    def test_shades_are_not_rounded_at_either_end(self):
        """Empty means that no row is sealed, and full means all rows."""
        assert show_grid((0, 1, 50, 99, 100)) == SHADES[0] + SHADES[1] + SHADES[2] + SHADES[3] + SHADES[4]

    def test_the_grid_is_bounded(self):
        """A terminal has 80 columns, and a table may have a million files."""
        assert len(show_grid(BUSY.grid)) == 64


class TestBadRecords:
    """Users must see bad records: the target is complete without them."""

    def test_bad_records_are_shown_while_a_job_runs(self):
        """They appear on a terminal and in a log."""
        running = BUSY.model_copy(update={"bad_records": 1234})

        assert "120 applied, 1,234 bad records" in text(show_progress("demo/orders", running))
        assert "1,234 bad records" in one_line(running)
        assert "bad records" not in one_line(BUSY)


class TestAReceipt:
    @pytest.mark.parametrize("columns", [40, 60])
    def test_a_receipt_shows_the_whole_name_of_a_file(self, columns):
        """A user searches for the name."""
        path = "part-00000-d74dee7e-1f2a-4b26-b95e-dfdc7cd98ac6-c000.snappy.parquet"
        receipt = Receipt(
            source_version=9, target_version=40, epoch=39, rows=5, vnodes=256, digest="ab" * 32, seconds=1.5,
            files=(FileMismatch(path=path, what="it does not exist"),),
        )  # fmt: skip
        shown = text(show_receipt(receipt), columns)

        assert path in re.sub(r"[│\s]", "", shown)
        assert "…" not in shown

    def test_a_receipt_of_equal_tables_names_both_versions(self):
        """Users keep it as a proof."""
        receipt = Receipt(
            source_version=9, target_version=40, epoch=39, rows=12_345, vnodes=256, digest="ab" * 32, seconds=1.5
        )
        shown = text(show_receipt(receipt))
        for fact in ("are equal", "12,345", "source version 9, target version 40", "256 vnodes", "1.5 s"):
            assert fact in shown

    @pytest.mark.parametrize(
        ("head", "newer"),
        [
            (SourceHead(version=1, position="version 1", behind=1, committed_at=AT, age_seconds=180), "1 version"),
            (SourceHead(version=12, position="version 12", behind=12, committed_at=AT, age_seconds=180), "12 versions"),
            (SourceHead(position="0:1005", behind=5, committed_at=AT, age_seconds=180), "5 offsets"),
        ],
    )
    def test_a_receipt_shows_newer_changes(self, head, newer):
        """`source and target are equal` is not true of the newest version (fault U1)."""
        receipt = Receipt(
            source_version=0, source_position="version 0", target_version=4, epoch=39, rows=5, vnodes=256,
            digest="ab" * 32, seconds=1.5,
        )  # fmt: skip
        shown = text(show_receipt(receipt, head))

        assert "equal at source version 0" in shown
        assert "source and target are equal" not in shown
        assert f"the source is at {head.position} now ({newer}, the newest 3 min old, not copied)" in shown
        assert "source and target are equal" in text(show_receipt(receipt, head.model_copy(update={"behind": 0})))

    def test_a_partial_receipt_shows_its_share(self):
        """At 31 % copied, the two sides are not equal yet."""
        receipt = Receipt(
            source_version=8, target_version=9, epoch=7, rows=1800, vnodes=256, digest="ab" * 32, seconds=0.5,
            complete=False, rows_filtered=69, rows_total=6000,
        )  # fmt: skip
        shown = text(show_receipt(receipt))

        assert "equal so far: 1,869 of 6,000 rows (31 %)" in shown
        assert "69 filtered out" in shown
        assert "source and target are equal" not in shown

    def test_a_receipt_names_partitions_with_open_transactions(self):
        """Equal rows are not a whole copy (fault B8)."""
        receipt = Receipt(
            source_version=None, target_version=9, epoch=7, rows=85, vnodes=256, digest="ab" * 32, seconds=0.5, complete=False,
            cut_off=(CutOff(partition="0", start=85, stop=100),),
        )  # fmt: skip
        shown = text(show_receipt(receipt))

        assert "equal, without records behind open transactions of 1 partition" in shown
        assert "partition 0 at offset 85; it ends at 100" in shown
        assert receipt.summary.cut_off_partitions == 1

    def test_filtered_rows_are_explained(self):
        """Fewer rows than the total look like a loss unless the line explains them."""
        line = one_line(
            Progress(attempt=1, percent=100, rows_total=1_999_980, rows_done=1_999_980, rows_filtered=9_785)
        )

        assert "1,999,980 of 1,999,980 rows, 9,785 filtered out" in line

    def test_a_receipt_of_different_tables_lists_vnodes(self):
        """A line names the vnode and both counts; a long list is truncated, and the output shows by how much."""
        wrong = tuple(Mismatch(vnode=vnode, source_rows=5, target_rows=4) for vnode in range(25))
        receipt = Receipt(
            source_version=9,
            target_version=40,
            epoch=39,
            rows=5,
            vnodes=256,
            digest="ab" * 32,
            seconds=1.5,
            mismatches=wrong,
        )
        shown = text(show_receipt(receipt))
        for fact in ("25 of 256 vnodes differ", "vnode 0", "5 rows in the source, 4 in the target", "and 15 more"):
            assert fact in shown

    def test_a_receipt_of_copied_files_names_a_different_file(self):
        """It shows how many files and rows were compared, and the file that differs, although all compared rows are equal."""
        receipt = Receipt(
            source_version=9, target_version=40, epoch=39, rows=12_345, vnodes=256, digest="ab" * 32, seconds=1.5,
            files_by_bytes=1_200, rows_by_rows=45, files=(FileMismatch(path="w-1.parquet", what="it does not exist"),),
        )  # fmt: skip
        shown = text(show_receipt(receipt))

        for fact in (
            "1 file differs",
            "1,200 files by their bytes, 45 rows in 256 vnodes",
            "w-1.parquet: it does not exist",
        ):
            assert fact in shown
        assert "are equal" in text(show_receipt(receipt.model_copy(update={"files": ()})))

    def test_a_receipt_of_a_topic_lists_its_partitions(self):
        """Partitions that lack rows come first, and a gap of the broker's own is named as one."""
        whole = PartitionReceipt(
            partition="0", start=0, stop=1200, records=1100, first=0, last=1198, gaps=100, bad_records=3, rows=1097,
            target_rows=1097, target_first=0, target_last=1198, missing=0,
        )  # fmt: skip
        torn = PartitionReceipt(
            partition="7", start=0, stop=9, records=9, first=0, last=8, rows=9, target_rows=7, missing=2
        )
        rows = partition_rows(
            (
                whole,
                torn,
                *(PartitionReceipt(partition=str(number), start=0, stop=0, records=0, rows=0) for number in range(9)),
            )
        )

        assert rows[0] == ("partition 7", "9 records at offsets 0 to 8; the target lacks 2")
        assert rows[1] == (
            "partition 0",
            "1,100 records at offsets 0 to 1198; 100 offsets without a record (the broker's own); 3 bad records; the target has all",
        )
        assert rows[2] == ("partition 0", "no record")
        assert rows[-1] == ("", "and 1 more")
