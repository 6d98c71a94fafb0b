"""What a job looks like in a terminal; every number is one that the driver said."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from backfill_api.plan import Plan
from backfill_api.progress import Progress, StepProgress
from backfill_api.receipt import Receipt
from backfill_api.wire import Ack
from backfill_cli.amounts import show_bytes, show_clock, show_rows, show_seconds

SHADES = "·░▒▓█"
PHASE_WORDS = {"Snapshot": "reading history", "CatchUp": "replaying changes", "Live": "following changes"}
STEP_WORDS = {"Start": "start", "Copy": "copy", "KeyProof": "key proof", "CatchUp": "catch-up", "Receipt": "receipt"}
ACKS_SHOWN_MAX = 3
MISMATCHES_SHOWN_MAX = 10


def show_progress(job: str, progress: Progress, note: str = "", acks: Sequence[Ack] = ()) -> RenderableType:
    """Return the one-screen status block of a job."""
    bar = Table.grid(padding=(0, 1), expand=True)
    bar.add_column(ratio=1)
    bar.add_column(justify="right", no_wrap=True)
    shown = f"{progress.percent} %  {show_rows(progress.rows_done)} of {show_rows(progress.rows_total)} rows"
    bar.add_row(ProgressBar(total=100, completed=progress.percent), shown)
    facts = Table.grid(padding=(0, 2))
    for _ in range(4):
        facts.add_column(no_wrap=True)
    for (name, value), (other, its) in zip(_left(progress), _right(progress), strict=True):
        facts.add_row(Text(name, style="dim"), value, Text(other, style="dim"), its)
    parts: list[RenderableType] = [bar]
    if progress.grid:
        parts.append(Text(show_grid(progress.grid), style="cyan", no_wrap=True))
    parts.append(facts)
    if progress.steps:
        parts.append(Text(show_steps(progress.steps), style="dim"))
    if progress.reason:
        parts.append(Text(progress.reason, style="yellow"))
    parts += [Text(f"warning: {words}", style="bold red") for words in progress.warnings]
    for ack in acks[-ACKS_SHOWN_MAX:]:
        parts.append(Text(f"revision {ack.revision} {ack.outcome.lower()} at epoch {ack.epoch}", style="dim"))
    if note:
        parts.append(Text(note, style="bold yellow"))
    phase = PHASE_WORDS.get(progress.phase, progress.phase or "starting")
    attempt = f"attempt {progress.attempt}  " if progress.attempt else ""
    title = Text.assemble((job, "bold"), f"  {attempt}{phase}")
    return Panel(Group(*parts), title=title, title_align="left", border_style=_colour(progress))


def show_steps(steps: Sequence[StepProgress]) -> str:
    """Return each step with its time: what it took, or about how long it still takes."""
    return " · ".join(f"{STEP_WORDS.get(one.name, one.name)} {_step_time(one)}".rstrip() for one in steps)


def _step_time(step: StepProgress) -> str:
    took = "" if step.seconds is None else show_seconds(step.seconds)
    if step.state == "Done":
        return took or "done"
    left = "" if step.seconds_left is None else f"~{show_seconds(step.seconds_left)}"
    return f"{took}, {left} left" if took and left else took or left


def _left(progress: Progress) -> list[tuple[str, str]]:
    rate = f"{show_rows(progress.rows_per_second)} rows/s" if progress.rows_per_second else "-"
    limit = progress.throttle_rows_per_second
    until = f" until {show_clock(progress.throttle_until)}" if progress.throttle_until else ""
    return [
        ("speed", rate),
        ("limit", "none" if limit is None else f"{show_rows(limit)} rows/s{until}"),
        ("left", _left_words(progress)),
        ("state", _state(progress)),
    ]


def _right(progress: Progress) -> list[tuple[str, str]]:
    seals = "-" if progress.seal_ms_p50 is None else f"{progress.seal_ms_p50} ms, p99 {progress.seal_ms_p99} ms"
    sealed = "" if progress.table_version is None else f", sealed as version {progress.table_version}"
    behind = progress.lag_versions or progress.lag_seconds
    lag = f"{progress.lag_versions} versions, {show_seconds(progress.lag_seconds)}" if behind else "nothing"
    return [
        ("barrier", f"epoch {progress.epoch}{sealed}"),
        ("seal", seals),
        ("behind", lag),
        ("changes", f"{show_rows(progress.changes_done)} applied"),
    ]


def _state(progress: Progress) -> str:
    """Return what is held, and by which command."""
    by = f" (revision {progress.revision})" if progress.revision else ""
    if progress.stopping:
        return "stopping"
    if progress.paused is not None:
        what = "everything" if progress.paused == "All" else "history"
        return f"{what} paused{', quiet' if progress.quiet else ''}{by}"
    return ("caught up" if progress.caught_up else "running" if progress.attempt else "starting") + by


def _left_words(progress: Progress) -> str:
    if progress.eta_seconds is None:
        return "-"
    low, high = progress.eta_seconds_low, progress.eta_seconds_high
    interval = f" ({show_seconds(low)} to {show_seconds(high)})" if low is not None and high is not None else ""
    return show_seconds(progress.eta_seconds) + interval


def show_grid(grid: Sequence[int]) -> str:
    """Return one character for each part of the snapshot; any row sealed shows, and full means all of it."""
    return "".join(SHADES[0 if cell <= 0 else 4 if cell >= 100 else 1 + cell * 3 // 100] for cell in grid)


def _colour(progress: Progress) -> str:
    return "yellow" if progress.paused else "green" if progress.caught_up else "blue"


def one_line(progress: Progress) -> str:
    """Return the status as one line, for logs."""
    reason = f"; {progress.reason}" if progress.reason else ""
    reason += "".join(f"; warning: {words}" for words in progress.warnings)
    return (
        f"{progress.step or progress.phase or 'Starting'} {progress.percent} % {progress.rows_done}/{progress.rows_total} rows, "
        f"{progress.rows_per_second} rows/s, epoch {progress.epoch}, behind {progress.lag_versions} versions, "
        f"{progress.lag_seconds} s{reason}"
    )


def show_receipt(receipt: Receipt) -> RenderableType:
    """Return a receipt as something to keep."""
    table = Table.grid(padding=(0, 2))
    equal = not receipt.mismatches
    verdict = "source and target are equal" if equal else f"{len(receipt.mismatches)} of {receipt.vnodes} vnodes differ"
    table.add_row("verdict", Text(verdict, style="bold green" if equal else "bold red"))
    table.add_row("rows", show_rows(receipt.rows))
    table.add_row("compared", f"source version {receipt.source_version}, target version {receipt.target_version}")
    table.add_row("proof", f"{receipt.vnodes} vnodes, digest {receipt.digest[:16]}")
    taken = f", at {show_clock(receipt.verified_at)}" if receipt.verified_at else ""
    table.add_row("took", f"{receipt.seconds:.1f} s{taken}")
    for one in receipt.mismatches[:MISMATCHES_SHOWN_MAX]:
        table.add_row(f"vnode {one.vnode}", f"{one.source_rows} rows in the source, {one.target_rows} in the target")
    if len(receipt.mismatches) > MISMATCHES_SHOWN_MAX:
        table.add_row("", f"and {len(receipt.mismatches) - MISMATCHES_SHOWN_MAX} more")
    return Panel(table, title="receipt", title_align="left", border_style="green" if equal else "red")


def show_plan(job: str, plan: Plan) -> RenderableType:
    """Return a plan as a table, with what is doubtful below it."""
    table = Table.grid(padding=(0, 2))
    low, high = plan.estimated_seconds_low, plan.estimated_seconds_high
    unique = {None: "not checked (--check-unique)", True: "yes", False: "NO"}[plan.key_unique]
    retention = "not known" if plan.retention_seconds is None else show_seconds(plan.retention_seconds)
    resumes = "" if plan.resumes_attempt is None else f"; goes on after attempt {plan.resumes_attempt}"
    for name, value in (
        ("rows", f"{show_rows(plan.rows)} in {plan.files} files, {show_bytes(plan.bytes)}"),
        ("version", str(plan.version)),
        ("time", f"about {show_seconds(plan.estimated_seconds)} ({show_seconds(low)} to {show_seconds(high)})"),
        *(("", f"{STEP_WORDS.get(one.name, one.name)} {show_seconds(one.seconds)}") for one in plan.steps),
        ("splits", f"about {plan.splits}"),
        ("key", f"{', '.join(plan.key_columns) or 'none'}; unique: {unique}"),
        ("transform", "row-wise and deterministic" if plan.deterministic else "NOT deterministic"),
        ("change feed", "yes" if plan.change_feed else "no: appends only"),
        ("retention", retention),
        ("target", ("is there" if plan.target_exists else "will be made") + resumes),
    ):
        table.add_row(Text(name, style="dim"), Text(value))
    parts: list[RenderableType] = [table]
    for one in plan.warnings:
        parts.append(Text.assemble((f"{one.reason}: ", "bold yellow"), one.message, " ", (one.cure, "dim")))
    return Panel(Group(*parts), title=Text.assemble("plan of ", (job, "bold")), title_align="left", border_style="blue")
