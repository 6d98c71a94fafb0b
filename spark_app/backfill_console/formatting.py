"""Readable amounts and progress."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from backfill_api.amounts import counted, show_seconds
from backfill_api.plain_text import printable
from backfill_api.spec.override import given_width
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import Receipt
from backfill_api.status.source_head import SourceHead

PHASE_WORDS = {
    "Snapshot": "reading the snapshot",
    "History": "reading the history",
    "Reading": "reading by key",
    "CatchUp": "replaying changes",
    "Live": "following changes",
    "Rearranging": "copying, overtaken by barriers",
    "Draining": "replaying changes",
    "Forwarding": "following changes",
}
WAY_WORDS = {
    "Whole": "copied byte by byte",
    "Projected": "copied without some columns, or with other names",
    "Grafted": "copied, with computed columns joined to the others",
    "Hidden": "copied, with the rows that the filter leaves out hidden in them",
    "Decoded": "decoded",
    "Excluded": "not read: the filter leaves out all of their rows",
}
"""Ways of files into the target."""

STEP_TITLES = {"KeyProof": "proving the key", "Receipt": "comparing source and target"}
"""Steps whose title is not that of the strategy's phase."""

STEP_WORDS = {"Start": "start", "Copy": "copy", "KeyProof": "key proof", "CatchUp": "catch-up", "Receipt": "receipt"}


def show_rows(count: int) -> str:
    """Return a count with thousands marked."""
    return f"{count:,}"


def show_bytes(size_bytes: int) -> str:
    """Return a size in its largest decimal unit."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= size:
            return f"{size_bytes / size:.1f} {unit}"
    return f"{size_bytes} B"


def show_clock(moment: str) -> str:
    """Return an RFC 3339 moment as local time of day."""
    return datetime.fromisoformat(moment).astimezone().strftime("%H:%M:%S")


def show_moment(moment: str) -> str:
    """Return an RFC 3339 moment as local date and time."""
    return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def format_phase(progress: Progress) -> str:
    """Return the current phase of a job as a title."""
    if progress.finished:
        return "complete"
    phase = PHASE_WORDS.get(progress.phase, progress.phase or "starting")
    return STEP_TITLES.get(progress.step, phase)


def format_state(progress: Progress) -> str:
    """Describe the activity in one or two words."""
    if progress.finished:
        return "complete"
    if progress.stopping:
        return "stopping"
    if progress.paused is not None:
        what = "everything" if progress.paused == "All" else "snapshot"
        return f"{what} paused{', quiet' if progress.quiet else ''}"
    return "caught up" if progress.caught_up else "running" if progress.attempt else "starting"


def format_eta(progress: Progress) -> str:
    """Return how long the rest takes, with its interval; `-` where that is not known."""
    if progress.eta_seconds is None:
        return "-"
    low, high = progress.eta_seconds_low, progress.eta_seconds_high
    interval = f" ({show_seconds(low)} to {show_seconds(high)})" if low is not None and high is not None else ""
    return show_seconds(progress.eta_seconds) + interval


def one_line(progress: Progress, *, elapsed_s: float | None = None) -> str:
    """Return the status as one line, for logs."""
    if not progress.attempt:
        parts = [progress.reason or "starting"]
    else:
        rows = f"{show_rows(progress.rows_done)} of {show_rows(progress.rows_total)} rows"
        step = "Complete" if progress.finished else progress.step or progress.phase
        parts = [
            f"{step} {progress.percent} % {rows}{format_filtered(progress.rows_filtered)}",
            f"{show_rows(progress.rows_per_second)} rows/s",
        ]
        if position := format_position(progress):
            parts.append(position)
        if progress.bad_records:
            parts.append(counted(progress.bad_records, "bad record"))
        if progress.writer_conflicts:
            parts.append(f"writers: {format_writer_conflicts(progress.writer_conflicts)}")
        if progress.eta_seconds is not None:
            parts.append(f"ETA {format_eta(progress)}")
        parts += [f"epoch {progress.epoch}", f"lag {format_lag(progress)}, {show_seconds(progress.lag_seconds)}"]
    if elapsed_s is not None:
        parts.append(f"running for {show_seconds(int(elapsed_s))}")
    reason = f"; {progress.reason}" if progress.attempt and progress.reason else ""
    return printable(", ".join(parts) + reason + "".join(f"; warning: {warning}" for warning in progress.warnings))


def format_position(progress: Progress) -> str:
    """Return how far the order of the rows is; nothing where there is none to tell."""
    if progress.position:
        return f"in the target: {progress.position}"
    reached = progress.watermark
    if reached is None:
        return ""
    side = "before" if reached.direction == "Ascending" else "after"
    return f"everything {side} {reached.column} {reached.value} is there"


def format_lag(progress: Progress) -> str:
    """Return how far the target is behind: in versions, or in records where the source has none."""
    records = progress.lag_records
    return counted(progress.lag_versions, "version") if records is None else counted(records, "record")


def format_source_head(head: SourceHead | None) -> str:
    """Describe the part of the source that the target lacks; empty if it has the newest position, or if none is known."""
    if head is None or not head.behind:
        return ""
    newer = counted(head.behind, "offset" if head.version is None else "version")
    return (
        f"the source is at {head.position} now ({newer}, the newest {show_seconds(head.age_seconds)} old, not copied)"
    )


def head_json(head: SourceHead | None) -> dict[str, object] | None:
    """Return the newest position of a source as JSON has it."""
    return None if head is None else head.model_dump(mode="json", by_alias=True)


def format_proof(receipt: Receipt) -> str:
    """Describe how rows and files were compared."""
    vnodes = counted(receipt.vnodes, "vnode")
    if not receipt.files_by_bytes:
        return vnodes
    rows = receipt.rows if receipt.rows_by_rows is None else receipt.rows_by_rows
    return f"{counted(receipt.files_by_bytes, 'file')} by their bytes, {counted(rows, 'row')} in {vnodes}"


def format_comparison(receipt: Receipt) -> str:
    """Describe what a receipt compared; drivers of earlier releases report only the version of the source."""
    source = receipt.source_position or f"version {receipt.source_version}"
    return f"source {source}, target version {receipt.target_version}"


def format_limit(progress: Progress) -> str:
    """Return the limits in force; `none` without one. An automatic limit replaces a higher manual limit of rows."""
    manual, auto = progress.throttle_rows_per_second, progress.auto_rows_per_second
    if auto is not None and (manual is None or auto < manual):
        return f"{format_rate(auto, progress.throttle_bytes_per_second)} (automatic)"
    return format_rate(progress.throttle_rows_per_second, progress.throttle_bytes_per_second) or "none"


def format_rate(rows_per_second: int | None, bytes_per_second: int | None) -> str:
    """Format limits for users; empty if there is none."""
    parts = [] if rows_per_second is None else [f"{show_rows(rows_per_second)} rows/s"]
    return " and ".join(parts + ([] if bytes_per_second is None else [f"{show_bytes(bytes_per_second)}/s"]))


def format_width(shown: object, *names: str) -> str:
    """Return number and size of the pieces of the snapshot that run at the same time, and the executors; empty if all are unknown.

    Args:
        shown: A value with the fields of `Width`, such as a progress.
        names: Names of the values to format; by default all.
    """
    width = given_width(shown)
    formats: dict[str, Callable[[int], str]] = {
        "max_in_flight": lambda pieces: f"at most {counted(pieces, 'piece')} at a time",
        "split_target_seconds": lambda seconds: f"splits of about {show_seconds(seconds)}",
        "chunk_rows": lambda rows: f"chunks of at most {counted(rows, 'row')}" if rows else "chunks of about 4 s",
        "executors": lambda executors: f"on {counted(executors, 'executor')}",
    }
    return ", ".join(formats[name](value) for name, value in width.items() if not names or name in names)


def format_bad_records(records: int) -> str:
    """Return how many records no parser takes, to be put behind those that are rows; nothing where there are none."""
    return f", {counted(records, 'bad record')}" if records else ""


def format_writer_conflicts(transactions: int) -> str:
    """Return how many transactions of other writers may have failed because of the job; empty if none."""
    return f"{counted(transactions, 'transaction')} may have failed" if transactions else ""


def format_filtered(rows: int | None) -> str:
    """Return how many rows a filter left out, to be put behind those that passed; nothing where there are none."""
    return f", {rows:,} filtered out" if rows else ""
