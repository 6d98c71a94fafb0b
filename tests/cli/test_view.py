"""What the terminal shows: the facts that a person looks for must be there."""

import io

import pytest
from rich.console import Console

from backfill_api.plan import Plan, PlanWarning
from backfill_api.progress import Progress
from backfill_api.receipt import Mismatch, Receipt
from backfill_api.wire import Ack
from backfill_cli.view import SHADES, one_line, show_grid, show_plan, show_progress, show_receipt

BUSY = Progress(
    attempt=2, epoch=41, phase="Snapshot", percent=36, rows_total=3_000_000, rows_done=1_089_000, changes_done=120,
    rows_per_second=198_400, lag_versions=7, lag_seconds=14, eta_seconds=95, eta_seconds_low=80, eta_seconds_high=130,
    reason="throttled to 200,000 rows/s by command (revision 3), for 412 s more", throttle_rows_per_second=200_000,
    throttle_until="2026-11-21T12:30:00Z", revision=3, table_version=52, seal_ms_p50=84, seal_ms_p99=211,
    grid=(100,) * 23 + (40,) + (0,) * 40,
)  # fmt: skip


def text(shown, width=100):
    """Return what a terminal of a width would show."""
    console = Console(width=width, file=io.StringIO(), record=True, color_system=None)
    console.print(shown)
    return console.export_text()


class TestARunningJob:
    @pytest.mark.parametrize(
        "fact",
        [
            "demo/orders", "attempt 2", "reading history", "36 %", "1,089,000 of 3,000,000 rows", "198,400 rows/s",
            "200,000 rows/s until", "1 min 35 s (1 min 20 s to 2 min 10 s)", "epoch 41, sealed as version 52",
            "84 ms, p99 211 ms", "7 versions, 14 s", "120 applied", "running (revision 3)",
            "throttled to 200,000 rows/s by command (revision 3), for 412 s more", "revision 3 applied at epoch 39",
        ],
    )  # fmt: skip
    def test_facts(self, fact):
        """Each is the answer to a question that somebody asks at night."""
        assert fact in text(
            show_progress("demo/orders", BUSY, acks=[Ack(attempt=2, epoch=39, revision=3, outcome="Applied")])
        )

    def test_it_fits_a_small_terminal(self):
        """80 columns is what a pager and a phone have; a line that wraps breaks the live view."""
        lines = text(show_progress("demo/orders", BUSY), width=80).splitlines()
        assert max(len(line) for line in lines) <= 80
        assert len(lines) <= 12

    def test_pause(self):
        """Paused and quiet are two things: work may still be ending."""
        held = BUSY.model_copy(update={"paused": "All", "quiet": False})
        assert "everything paused (revision 3)" in text(show_progress("j", held))
        quiet = BUSY.model_copy(update={"paused": "History", "quiet": True})
        assert "history paused, quiet (revision 3)" in text(show_progress("j", quiet))

    def test_before_anything_is_known(self):
        """Spark takes seconds to start; zeros must not look like figures."""
        shown = text(show_progress("j", Progress(reason="starting Spark")))
        assert "starting Spark" in shown
        assert "attempt" not in shown

    def test_markup_in_names_is_text(self):
        """A table may be named like a colour; rich must not swallow it."""
        shown = text(show_progress("[red]job[/]", BUSY.model_copy(update={"reason": "[bold]x[/] y"})))
        assert "[bold]x[/] y" in shown
        assert "[red]job[/]" in shown

    def test_one_line_says_it_for_logs(self):
        """A log has no screen."""
        line = one_line(BUSY)
        assert "\n" not in line
        for fact in ("Snapshot 36 %", "1089000/3000000", "epoch 41", "behind 7 versions", "revision 3"):
            assert fact in line


class TestTheGrid:
    def test_shades(self):
        """Empty means nothing sealed, full means all of it: no rounding at either end."""
        assert show_grid((0, 1, 50, 99, 100)) == SHADES[0] + SHADES[1] + SHADES[2] + SHADES[3] + SHADES[4]

    def test_is_bounded(self):
        """A terminal has 80 columns, a table may have a million files."""
        assert len(show_grid(BUSY.grid)) == 64


class TestAReceipt:
    def test_equal(self):
        """What is kept as a proof names both versions."""
        receipt = Receipt(
            source_version=9, target_version=40, epoch=39, rows=12_345, vnodes=256, digest="ab" * 32, seconds=1.5
        )
        shown = text(show_receipt(receipt))
        for fact in ("are equal", "12,345", "source version 9, target version 40", "256 vnodes", "1.5 s"):
            assert fact in shown

    def test_different(self):
        """A difference names the vnode and both counts; many are cut, and said to be."""
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


class TestAPlan:
    def test_facts_and_warnings(self):
        """What is decided by it: how long, how much, and what is doubtful."""
        plan = Plan(
            rows=3_000_000, bytes=210_000_000, files=16, splits=20, version=4, estimated_seconds=20,
            estimated_seconds_low=15, estimated_seconds_high=30, key_columns=("order_id",), change_feed=True,
            target_exists=False, warnings=(PlanWarning(reason="ShortRetention", message="it is short.", cure="Raise it."),),
        )  # fmt: skip
        shown = text(show_plan("demo/orders", plan))
        for fact in ("3,000,000 in 16 files, 210.0 MB", "about 20 s (15 s to 30 s)", "order_id; unique: not checked",
                     "will be made", "ShortRetention: it is short. Raise it."):  # fmt: skip
            assert fact in shown
