"""Lines as HTML for a notebook or a page; all text is escaped.

Colours are mixtures with the colour of the text around them, so a block is readable on a light and on a dark page. Each has a plain
colour before it, because older browsers and the sanitizers of some notebooks do not take mixtures.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from backfill_api.status.plan import Plan
from backfill_api.status.receipt import Receipt
from backfill_api.status.source_head import SourceHead
from backfill_console.block import block_lines
from backfill_console.frame import JobFrame
from backfill_console.plans import plan_lines
from backfill_console.receipts import receipt_lines
from backfill_console.segments import Line, Role, Segment

COLUMNS: Final = 100
BLOCK_STYLE: Final = (
    "font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:13px;line-height:1.5;white-space:pre;"
    "overflow-x:auto;padding:.6em .8em;border:1px solid #8885;border-radius:6px;max-width:max-content"
)


def _mixed(colour: str, percent: int = 35) -> str:
    return f"color:{colour};color:color-mix(in srgb,currentColor {percent}%,{colour})"


def _filled(colour: str) -> str:
    return f"color:transparent;background:{colour}"


STYLES: Final[dict[Role, str]] = {
    "plain": "",
    "strong": "font-weight:bold",
    "dim": "opacity:.7",
    "good": _mixed("#1f8a4c"),
    "warn": _mixed("#b07800"),
    "bad": _mixed("#d03030"),
    "done": _filled("#2e9e5b"),
    "partial": _filled("#2e9e5b80"),
    "open": _filled("#8883"),
    "spark": _mixed("#1c7f9c"),
    "rule": "opacity:.25",
}
"""Inline styles, because a stored notebook may lose its style sheets."""

SYMBOLS: Final = "▶✔✖■◌"
AS_TEXT: Final = "\ufe0e"
"""Selects the text form of a symbol; some fonts would draw an emoji."""


def frame_html(frame: JobFrame, columns: int = COLUMNS) -> str:
    """Return the block of a job."""
    return lines_html(block_lines(frame, columns), label=f"backfill {frame.title}")


def receipt_html(receipt: Receipt, head: SourceHead | None = None, columns: int = COLUMNS) -> str:
    """Return a receipt with its map of vnodes; `head` is the newest position of the source."""
    return lines_html(receipt_lines(receipt, head, columns, with_map=True), label="receipt")


def plan_html(job: str, plan: Plan, places: Sequence[tuple[str, str]] = (), columns: int = COLUMNS) -> str:
    """Return a plan with its warnings."""
    return lines_html(plan_lines(job, plan, columns, places), label=f"plan of {job}")


def lines_html(lines: Sequence[Line], *, label: str) -> str:
    """Return lines as one element.

    Args:
        lines: The lines.
        label: Name of the element for screen readers.
    """
    rows = "".join(f"<div>{''.join(map(_span, shown.segments)) or '&nbsp;'}</div>" for shown in lines)
    return f'<div class="backfill" role="group" aria-label="{escape(label)}" style="{escape(BLOCK_STYLE)}">{rows}</div>'


def _span(segment: Segment) -> str:
    text = escape(segment.text)
    for symbol in SYMBOLS:
        text = text.replace(symbol, symbol + AS_TEXT)
    style = STYLES[segment.role]
    if not style:
        return text
    hidden = ' aria-hidden="true"' if segment.role in {"done", "partial", "open", "spark", "rule"} else ""
    return f'<span class="backfill-{segment.role}" style="{escape(style)}"{hidden}>{text}</span>'
