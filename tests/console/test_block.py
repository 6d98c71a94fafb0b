"""The terminal shows the facts that a user needs."""

import io
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console
from support.console.rendered import text

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.plan import Plan
from backfill_api.status.progress import Progress, Watermark
from backfill_api.wire import Ack
from backfill_cli.commands.run import STOPPING
from backfill_console.bars import SHADES, show_grid
from backfill_console.facts import format_end
from backfill_console.formatting import one_line
from backfill_console.frame import Trend
from backfill_console.frames import frame_of_driver, frame_of_stored
from backfill_console.terminal import show_frame, show_plan

BUSY = Progress(
    attempt=2, epoch=41, phase="Snapshot", percent=36, rows_total=3_000_000, rows_done=1_089_000, changes_done=120,
    rows_per_second=198_400, lag_versions=7, lag_seconds=14, eta_seconds=95, eta_seconds_low=80, eta_seconds_high=130,
    reason="throttled to 200,000 rows/s by command (revision 3), for 412 s more", throttle_rows_per_second=200_000,
    throttle_until="2026-11-21T12:30:00Z", revision=3, table_version=52, seal_ms_p50=84, seal_ms_p99=211,
    grid=(100,) * 23 + (40,) + (0,) * 40, max_in_flight=8, split_target_seconds=4, executors=3,
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
NOW = datetime(2026, 11, 21, 12, 23, 8, tzinfo=UTC)
SPEC = BackfillSpec.model_validate(
    {
        "source": {"type": "Delta", "delta": {"path": "s3a://here/orders", "key": ["id"]}},
        "target": {"type": "Delta", "delta": {"path": "s3a://there/orders"}},
    }
)
PICTURES = Path(__file__).parent / "pictures"


def block(job, progress, columns=100, *, lines=None, **fields):
    """Return the block of a job with a driver as text."""
    return text(show_frame(frame_of_driver(job, progress, now=NOW, **fields), lines=lines), columns)


@pytest.fixture(autouse=True)
def utc(utc):
    """Times are shown in the local time zone, which differs between machines."""


class TestTheTitle:
    """The title shows the current step, or the end (fault U18)."""

    @pytest.mark.parametrize(
        ("fields", "title"),
        [
            ({"phase": "Live", "finished": True, "percent": 100}, "✔ complete"),
            ({"phase": "Live", "step": "Receipt"}, "▶ comparing source and target"),
            ({"phase": "CatchUp", "step": "KeyProof"}, "▶ proving the key"),
            ({"phase": "Live"}, "▶ following changes"),
            ({"stopping": True}, "■ stopping"),
        ],
    )
    def test_the_title_shows_the_current_step(self, fields, title):
        """A complete job used to be shown as following changes."""
        shown = block("j", BUSY.model_copy(update=fields)).splitlines()[0]

        assert shown.startswith(f"j  {title}  ")
        assert "attempt 2" in shown

    def test_the_title_of_a_stopped_job_shows_how_to_resume(self):
        """Unknown values are not shown as 0 or `none` (fault U15)."""
        stored = Progress(
            attempt=2, epoch=41, percent=36, rows_done=1_089_000, last_commit_time=AT, phase="Reading", eta_seconds=95
        )
        shown = text(show_frame(frame_of_stored("j", "Stopped", stored, now=NOW)))

        assert "j  ■ stopped; `backfill run` resumes it  36 %  attempt 2" in shown.splitlines()[0]
        assert "2026-11-21 12:30:00" in shown
        assert "1,089,000 rows" in shown
        assert " of 0" not in shown
        assert re.search(r"lag|rate|ETA| ago", shown) is None

    @pytest.mark.parametrize(
        ("age_s", "shown"),
        [
            (0, "in 1 min 40 s (1 min 20 s to 3 min 20 s)"),
            (60, "in 40 s (20 s to 2 min 20 s)"),
            (150, "in 0 s (0 s to 50 s)"),
            (201, ""),
        ],
    )
    def test_old_estimate_keeps_its_end_and_its_interval(self, age_s, shown):
        """A status of a cluster is ten seconds old, and that of a silent driver hours: `in 0 s (9 min to 18 min)` was shown."""
        end = (NOW + timedelta(seconds=100 - age_s)).isoformat()
        progress = BUSY.model_copy(
            update={"eta": end, "eta_seconds": 100, "eta_seconds_low": 80, "eta_seconds_high": 200}
        )

        assert format_end(frame_of_driver("job", progress, now=NOW)).partition(", ")[2] == shown

    @pytest.mark.parametrize("shown", ["running", "caught up", "plan"])
    def test_the_title_has_the_colour_of_text(self, shown):
        """The blue of many terminals cannot be read on black (faults U19 to U29)."""
        plan = Plan(
            rows=1, bytes=1, files=1, splits=1, estimated_seconds=1, estimated_seconds_low=1, estimated_seconds_high=1
        )
        live = BUSY.model_copy(update={"caught_up": shown == "caught up"})
        console = Console(width=80, force_terminal=True, color_system="standard", file=io.StringIO())
        title = next(
            iter(
                console.render_lines(
                    show_plan("job", plan) if shown == "plan" else show_frame(frame_of_driver("job", live, now=NOW))
                )
            )
        )
        colours = {
            segment.style.color.name
            for segment in title
            if segment.text.strip() and segment.style and segment.style.color
        }

        assert colours == {"default"}
        assert "blue" not in {segment.style.color.name for segment in title if segment.style and segment.style.color}

    @pytest.mark.parametrize(
        ("columns", "title"),
        [
            (
                110,
                "default/orders  ▶ reading the snapshot  36 %  attempt 2  ETA 12:24, in 1 min 35 s (1 min 20 s to 2 min 10 s)",
            ),
            (80, "default/orders  ▶ reading the snapshot  36 %  attempt 2                  up 42 s"),
            (60, "default/orders  ▶ reading the snapshot  36 %  attempt 2"),
            (50, "default/orders  ▶ reading the snapshot  36 %"),
            (40, "default/orders  ▶ reading the snapshot"),
            (34, "default/orders  36 %"),
            (24, "default/orders  36 %"),
            (16, "default/o…  36 %"),
            (10, "36 %"),
        ],
    )
    def test_the_title_of_a_narrow_terminal_omits_whole_parts(self, columns, title):
        """`reading the sn` is no step (faults U19 to U29)."""
        assert block("default/orders", BUSY, columns, up_s=42.3).splitlines()[0] == title


class TestARunningJob:
    @pytest.mark.parametrize(
        "fact",
        [
            "demo/orders", "attempt 2", "▶ reading the snapshot", "42 s", "36 %", "1,089,000 of 3,000,000 rows", "198,400 rows/s",
            "200,000 rows/s until 12:30:00", "ETA      12:24, in 1 min 35 s (1 min 20 s to 2 min 10 s)", "epoch 41, committed as version 52",
            "84 ms, p99 211 ms", "width    at most 8 pieces at a time", "pieces   splits of about 4 s, on 3 executors", "7 versions, 14 s", "120 applied",
            "throttled to 200,000 rows/s by command (revision 3), for 412 s more", "revision 3 applied at epoch 39",
        ],
    )  # fmt: skip
    def test_the_block_shows_each_fact(self, fact):
        """Each fact answers a question of a user on call."""
        acks = [Ack(attempt=2, epoch=39, revision=3, outcome="Applied")]

        assert fact in block("demo/orders", BUSY, acks=acks, up_s=42.3)

    @pytest.mark.parametrize("name", ["running", "arrangement"])
    @pytest.mark.parametrize("lines", [24, 8])
    @pytest.mark.parametrize("columns", [60, 80, 120])
    def test_the_block_matches_its_picture(self, columns, lines, name):
        """At every size, names and numbers are whole, the reason stays, and no line wraps or is cut off at the bottom.

        Review a change of the layout by eye: `BACKFILL_DRAW=1` rewrites the pictures.
        """
        progress = {"running": BUSY, "arrangement": ARRANGED}[name]
        note = STOPPING if lines == 8 else ""
        drawn = block("demo/orders", progress, columns, spec=SPEC, note=note, up_s=42.3, lines=lines)
        picture = PICTURES / f"{name}-{columns}x{lines}.txt"
        if os.environ.get("BACKFILL_DRAW"):
            picture.write_text(drawn)

        assert drawn == picture.read_text()
        assert max(len(line) for line in drawn.splitlines()) <= columns
        assert len(drawn.splitlines()) <= lines

    @pytest.mark.parametrize("lines", [1, 2, 3, 5])
    def test_a_very_low_terminal_shows_the_bar_and_the_reason(self, lines):
        """Users keep a pane of three lines open all day."""
        drawn = block("demo/orders", BUSY, 60, lines=lines).splitlines()

        assert len(drawn) <= lines
        assert any("36 %" in line for line in drawn)
        assert lines < 3 or any(line.startswith("throttled to") for line in drawn)

    @pytest.mark.parametrize("columns", [10, 20, 40, 59, 97])
    def test_a_narrow_terminal_wraps_no_line(self, columns):
        """A line that wraps is drawn twice."""
        drawn = block("demo/orders", BUSY, columns, spec=SPEC, lines=24).splitlines()

        assert max(len(line) for line in drawn) <= columns

    @pytest.mark.parametrize("columns", range(24, 60, 5))
    def test_a_narrow_terminal_cuts_no_number(self, columns):
        """A truncated number is another number, and a truncated name is useless (faults U19 to U29)."""
        drawn, wide = (block("demo/orders", BUSY, width, lines=24) for width in (columns, 200))
        cut, whole = ({word.strip(",.:") for word in re.findall(r"[\w:.,/]+", shown)} for shown in (drawn, wide))

        assert cut <= whole

    def test_a_paused_job_shows_whether_work_is_still_ending(self):
        """Paused and quiet differ: tasks may still be running."""
        held = BUSY.model_copy(update={"paused": "All", "quiet": False})
        assert "‖ everything paused  36 %" in block("j", held)
        quiet = BUSY.model_copy(update={"paused": "History", "quiet": True})
        assert "‖ snapshot paused, quiet" in block("j", quiet)

    def test_a_starting_job_shows_no_numbers(self):
        """Spark takes seconds to start; zeros must not look like measurements."""
        trend = Trend(step="starting Spark", step_began_at=NOW - timedelta(seconds=3.1))
        shown = block("j", Progress(reason="starting Spark"), up_s=7.2, trend=trend)
        assert "starting Spark  3 s" in shown
        assert re.search("^j  ◌ starting +up 7 s$", shown, re.MULTILINE)
        assert [word for word in ("attempt", "0 of 0", "limit", "epoch") if word in shown] == []
        assert one_line(Progress(reason="starting Spark"), elapsed_s=7.2) == "starting Spark, running for 7 s"

    def test_markup_in_names_is_text(self):
        """A table may be named like a colour; rich must not remove its name."""
        shown = block("[red]job[/]", BUSY.model_copy(update={"reason": "[bold]x[/] y"}))
        assert "[bold]x[/] y" in shown
        assert "[red]job[/]" in shown

    def test_the_position_in_an_order_is_shown(self):
        """This is the key that row-by-row reading has reached, or else the value that all files of the snapshot have passed."""
        by_file = ARRANGED.model_copy(update={"position": ""})

        assert "in the target: rows down to ordered_at = 2026-03-01T04:00:00Z, order_id = 1089211" in one_line(ARRANGED)
        assert "everything after ordered_at 2026-03-01T04:00:00Z is there" in one_line(by_file)
        assert "everything after ordered_at 2026-03-01T04:00:00Z is there" in block("j", by_file)

    def test_filtered_rows_are_explained(self):
        """Fewer rows than the total look like a loss unless the line explains them."""
        line = one_line(
            Progress(attempt=1, percent=100, rows_total=1_999_980, rows_done=1_999_980, rows_filtered=9_785)
        )

        assert "1,999,980 of 1,999,980 rows, 9,785 filtered out" in line

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
        job, rows = (line.split() for line in block("j", progress).splitlines() if line.startswith(("job ", "rows ")))

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

        assert "120 applied, 1,234 bad records" in block("demo/orders", running)
        assert "1,234 bad records" in one_line(running)
        assert "bad records" not in one_line(BUSY)


class TestWritersOfTheTable:
    """Users must see that a job may have made their transactions fail."""

    def test_transactions_that_may_have_failed_are_shown_while_a_job_runs(self):
        """They appear on a terminal and in a log."""
        running = BUSY.model_copy(update={"writer_conflicts": 3})

        assert "3 transactions may have failed" in block("demo/orders", running)
        assert "writers: 3 transactions may have failed" in one_line(running)
        assert "may have failed" not in one_line(BUSY)
