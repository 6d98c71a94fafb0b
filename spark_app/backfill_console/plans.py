"""The plan of a job; every number comes from the plan."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_api.amounts import counted, show_seconds
from backfill_api.plain_text import printable
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.plan import Plan, PlannedMover, PlannedOrder, PlannedPartitions, PlannedScope, PlannedTarget
from backfill_console.bars import DONE, PARTIAL
from backfill_console.formatting import STEP_WORDS, WAY_WORDS, show_bytes, show_rows
from backfill_console.heading import STEP_GAP
from backfill_console.plan_reasons import explain_files, explain_time
from backfill_console.rows import Row, named_lines
from backfill_console.segments import Line, Segment, line, wrapped

STEPS_COLUMNS, STEPS_NAME_COLUMNS = 50, 13


def _format_order(order: PlannedOrder) -> str:
    unknown = f"; {counted(order.files_unknown, 'file')} without statistics last" if order.files_unknown else ""
    return (
        f"{order.column}, {order.direction.lower()}; {order.overlap_percent} % of all pairs of files overlap{unknown}"
    )


def _partition_plan(partitions: PlannedPartitions | None) -> list[tuple[str, str]]:
    """Return the rows of the largest partitions in one line, and those of the rest in another."""
    if partitions is None:
        return []
    largest = " ".join(f"{part.partition}:{show_rows(part.rows)}" for part in partitions.largest) or "none"
    more = f"{partitions.others:,} more with {show_rows(partitions.other_rows)} in all"
    return [("partitions", largest), *([("", more)] if partitions.others else [])]


def _ways(plan: Plan) -> list[tuple[str, str]]:
    """Return a line for each copy mode."""
    lines = [
        f"{mode.files:,} {WAY_WORDS.get(mode.way, mode.way)}" + (f": {mode.reason}" if mode.reason else "")
        for mode in plan.ways
    ]
    return [("" if index else "files", line) for index, line in enumerate(lines)]


PUBLISHED = {
    "WhenComplete": "all rows in one commit, once they are copied; then the changes",
    "WhenVerified": "all rows in one commit, once they are copied and equal to the source; then the changes",
}
"""Line about the time at which readers see the rows, by `publish`."""


def _mover(mover: PlannedMover | None) -> list[tuple[str, str]]:
    """Return the line of the mover of copied files."""
    if mover is None:
        return []
    cost = f"about {mover.requests:,} requests"
    if mover.name == "Store":
        rate = "" if mover.bytes_per_second is None else f", {show_bytes(mover.bytes_per_second)} a second"
        return [("copies", f"by the object store itself: {cost}{rate}")]
    return [("copies", f"through the driver: {mover.reason}; {cost}")]


def _target(target: PlannedTarget | None) -> list[tuple[str, str]]:
    """Return the lines of the layout of the target."""
    if target is None:
        return []
    lines = [("columns", target.columns)]
    if target.cluster_by:
        lines.append(("clusters", ", ".join(target.cluster_by)))
    else:
        lines.append(("partitions", ", ".join(target.partition_by) or "none"))
    if target.reader_features:
        lines.append(("features", f"{', '.join(target.reader_features)}: readers of the target must support them"))
    if target.publish in PUBLISHED:
        lines.append(("visible", PUBLISHED[target.publish]))
    return [*lines, *_scope(target.scope)]


def _scope(scope: PlannedScope | None) -> list[tuple[str, str]]:
    """Return the lines of the part of the target that is replaced."""
    if scope is None:
        return []
    rows = "an unknown number of rows" if scope.rows is None else counted(scope.rows, "row")
    more = f" and {scope.files - len(scope.names):,} more" if scope.files > len(scope.names) else ""
    removed = f": {', '.join(scope.names)}{more}" if scope.names else ""
    return [
        ("replaces", f"{counted(scope.files, 'file')} with {rows}{removed}"),
        ("", f"{counted(scope.files_kept, 'file')} outside of the scope stay"),
    ]


def _time(plan: Plan) -> list[tuple[str, str]]:
    """Return the time of the job and that of each step."""
    low, high = show_seconds(plan.estimated_seconds_low), show_seconds(plan.estimated_seconds_high)
    steps = [("", f"{STEP_WORDS.get(step.name, step.name)} {show_seconds(step.seconds)}") for step in plan.steps]
    return [("time", f"about {show_seconds(plan.estimated_seconds)} ({low} to {high})"), *steps]


def plan_lines(
    job: str,
    plan: Plan,
    columns: int,
    places: Sequence[tuple[str, str]] = (),
    *,
    explained_by: BackfillSpec | None = None,
) -> list[Line]:
    """Return a plan with its warnings.

    Args:
        job: Id of the job.
        plan: Its plan.
        columns: Columns of the screen; longer values wrap.
        places: Source and target with their locations.
        explained_by: The job's spec, whose settings explain copy modes and times; `None` to leave explanations out.
    """
    rows = [Row(name, value) for name, value in (*places, *_facts(plan, explained_by))]
    if columns > STEPS_COLUMNS + STEPS_NAME_COLUMNS and any(step.seconds for step in plan.steps):
        after_time = next(at for at, row in enumerate(rows) if row.name == "splits")
        rows.insert(after_time, steps_bar(plan))
    title = line("plan of ", Segment(printable(job), "strong"))
    return [title, *named_lines(rows, columns), *warning_lines(plan, columns)]


def plan_line(plan: Plan) -> str:
    """Return a plan in one line: its size, the files of each copy mode, and its time."""
    modes = ", ".join(f"{mode.files:,} {WAY_WORDS.get(mode.way, mode.way)}" for mode in plan.ways)
    return f"{format_size(plan)}{f': {modes}' if modes else ''}; about {show_seconds(plan.estimated_seconds)}"


def format_plan_steps(plan: Plan) -> str:
    """Return the steps of a plan with their times in one line."""
    return STEP_GAP.join(f"{STEP_WORDS.get(step.name, step.name)} {show_seconds(step.seconds)}" for step in plan.steps)


def steps_bar(plan: Plan) -> Row:
    """Return a bar with a part for each step, as long as its part of the time."""
    total = sum(step.seconds for step in plan.steps)
    parts: list[Segment] = []
    used = taken_s = 0
    for number, step in enumerate(plan.steps if total else ()):
        taken_s += step.seconds
        end = round(STEPS_COLUMNS * taken_s / total)
        parts.append(Segment((PARTIAL if number % 2 else DONE) * (end - used), "partial" if number % 2 else "done"))
        used = end
    return Row("steps", "unknown", bar=tuple(part for part in parts if part.text))


def warning_lines(plan: Plan, columns: int) -> list[Line]:
    """Return each warning of a plan with its hint."""
    return [
        line(Segment(text, "warn"))
        for warning in plan.warnings
        for text in wrapped(printable(f"! {warning.reason}: {warning.message} {warning.hint}"), columns)
    ]


def _facts(plan: Plan, explained_by: BackfillSpec | None) -> list[tuple[str, str]]:
    feed = {None: None, True: "yes", False: "no: appends only"}[plan.change_feed]
    unique = {None: "not checked (--check-unique)", True: "yes", False: "NO"}[plan.key_unique]
    amplification = plan.read_amplification_percent
    retention = "not known" if plan.retention_seconds is None else show_seconds(plan.retention_seconds)
    if amplification is not None:
        retention = "not needed: the newest version is read, and no old one is kept"
    resumes = "" if plan.resumes_attempt is None else f"; resumes after attempt {plan.resumes_attempt}"
    facts = [("rows", format_size(plan)), *(_ways(plan) if explained_by is None else explain_files(plan))]
    facts += _mover(plan.mover)
    facts += _partition_plan(plan.partitions)
    facts += [] if plan.version is None else [("version", str(plan.version))]
    facts += _time(plan) if explained_by is None else explain_time(plan, explained_by)
    facts.append(("splits", f"about {plan.splits}"))
    facts += [] if plan.order is None else [("order", _format_order(plan.order))]
    if amplification is not None:
        facts.append(("reads", f"each file {amplification / 100:.1f} times, in the order of a key"))
    facts.append(("key", f"{', '.join(plan.key_columns) or 'none'}; unique: {unique}"))
    facts.append(("transform", "row-wise and deterministic" if plan.deterministic else "NOT deterministic"))
    facts += [] if feed is None else [("change feed", feed)]
    facts.append(("retention", retention))
    facts.append(("", ("the target exists" if plan.target_exists else "the target will be created") + resumes))
    return facts + _target(plan.target)


def format_size(plan: Plan) -> str:
    """Return the rows of a plan, with the number and size of their files."""
    files = f" in {counted(plan.files, 'file')}, {show_bytes(plan.bytes)}" if plan.files else ""
    return show_rows(plan.rows) + files
