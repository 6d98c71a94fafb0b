"""Blocks, receipts and plans as HTML: the same lines as on a terminal, escaped, readable without a style sheet."""

import re
from html import unescape
from html.parser import HTMLParser

import pytest
from support.console.frames import CLUSTER, NOW

from backfill_api.status.plan import Plan, PlanWarning
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import Mismatch, Receipt
from backfill_console.block import block_lines
from backfill_console.frames import frame_of_driver
from backfill_console.html import COLUMNS, STYLES, frame_html, plan_html, receipt_html

HOSTILE = '<script>alert("x")</script>'
RECEIPT = Receipt(
    source_version=9, target_version=40, epoch=39, rows=12_345, vnodes=256, digest="ab" * 32, seconds=1.5,
    mismatches=(Mismatch(vnode=17, source_rows=5, target_rows=4),),
)  # fmt: skip


class Tags(HTMLParser):
    """Collects the names of all elements, and checks that each one is closed."""

    def __init__(self, shown):
        super().__init__()
        self.names, self.open = [], []
        self.feed(shown)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Open an element."""
        self.names.append(tag)
        self.open.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_endtag(self, tag):
        """Close the newest open element."""
        assert self.open.pop() == tag


def lines(shown):
    """Return the text of each line."""
    return [unescape(re.sub("<[^>]+>", "", row)).replace("\ufe0e", "") for row in re.findall("<div>(.*?)</div>", shown)]


class TestABlock:
    """One renderer draws the terminal, the notebook and the page."""

    def test_html_contains_the_lines_of_a_terminal(self):
        """A second layout would show other numbers."""
        assert lines(frame_html(CLUSTER)) == [shown.text for shown in block_lines(CLUSTER, COLUMNS)]

    @pytest.mark.parametrize("where", ["job", "reason", "warning"])
    def test_html_in_a_name_or_message_is_escaped(self, where):
        """A job id or a reason may contain any characters."""
        progress = Progress(
            attempt=1, reason=HOSTILE if where == "reason" else "", warnings=(HOSTILE,) * (where == "warning")
        )
        shown = frame_html(frame_of_driver(HOSTILE if where == "job" else "j", progress, now=NOW))

        assert {*Tags(shown).names} == {"div", "span"}
        assert HOSTILE in "\n".join(lines(shown))

    def test_a_style_keeps_a_plain_colour(self):
        """Sanitizers of stored notebooks remove mixtures, and style sheets."""
        coloured = [style for style in STYLES.values() if "color-mix" in style]

        assert len(coloured) >= 4
        assert all(re.match(r"color:#[0-9a-f]{6};color:color-mix", style) for style in coloured)
        assert "<style" not in frame_html(CLUSTER)

    def test_bars_are_hidden_from_screen_readers(self):
        """A hundred block characters are no text; the label next to them has the number."""
        shown = frame_html(CLUSTER)

        assert not re.findall(r'class="backfill-(?:done|open|rule)" style="[^"]*">', shown)
        assert 'aria-label="backfill shop/orders"' in shown


class TestReceiptsAndPlans:
    def test_a_receipt_has_a_map_of_its_vnodes(self):
        """The map shows whether differences are in one place or everywhere."""
        shown = lines(receipt_html(RECEIPT))
        rows = [row.split() for row in shown[-16:]]

        assert [len(row) for row in rows] == [16] * 16
        assert [(at, row.index("×")) for at, row in enumerate(rows) if "×" in row] == [(1, 1)]
        assert "vnodes in 256 parts: ■ equal  × differs (1)" in shown

    def test_a_receipt_of_more_vnodes_has_the_same_map(self):
        """32,768 cells are no picture."""
        many = RECEIPT.model_copy(
            update={"vnodes": 4096, "mismatches": (Mismatch(vnode=4095, source_rows=1, target_rows=0),)}
        )

        assert lines(receipt_html(many))[-1].split().index("×") == 15

    def test_a_plan_shows_steps_as_a_bar_and_each_warning(self):
        """A step of no time has no part of the bar."""
        steps = [{"name": name, "seconds": seconds} for name, seconds in (("Start", 10), ("Copy", 30), ("CatchUp", 0))]
        plan = Plan(
            rows=5, bytes=5, files=1, splits=1, estimated_seconds=40, estimated_seconds_low=30, estimated_seconds_high=50,
            steps=steps, warnings=(PlanWarning(reason="ShortRetention", message=HOSTILE, hint="Raise it."),),
        )  # fmt: skip
        shown = plan_html("orders", plan, (("source", "lake/orders"),))
        bar = next(text for text in lines(shown) if text.startswith("steps"))

        assert (bar.count("█"), bar.count("▒")) == (12, 38)
        assert f"! ShortRetention: {HOSTILE} Raise it." in lines(shown)
        assert {*Tags(shown).names} == {"div", "span"}
