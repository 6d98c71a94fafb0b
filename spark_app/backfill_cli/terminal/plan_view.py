"""The plan of a job on a terminal; every number comes from the plan."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from backfill.formatting import STEP_WORDS, WAY_WORDS, show_bytes, show_rows
from backfill_api.amounts import counted, show_seconds
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.plan import Plan, PlannedOrder, PlannedPartitions, PlannedTarget
from backfill_cli.terminal.plan_explained import explain_files, explain_time
from backfill_cli.terminal.view import TITLE, named_lines


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
    return lines


def _time(plan: Plan) -> list[tuple[str, str]]:
    """Return the time of the job and that of each step."""
    low, high = show_seconds(plan.estimated_seconds_low), show_seconds(plan.estimated_seconds_high)
    steps = [("", f"{STEP_WORDS.get(step.name, step.name)} {show_seconds(step.seconds)}") for step in plan.steps]
    return [("time", f"about {show_seconds(plan.estimated_seconds)} ({low} to {high})"), *steps]


def show_plan(
    job: str, plan: Plan, places: Sequence[tuple[str, str]] = (), *, explained_by: BackfillSpec | None = None
) -> RenderableType:
    """Return a plan as a table, with the warnings below it.

    Args:
        job: Id of the job.
        plan: Its plan.
        places: Source and target with their locations.
        explained_by: The job's spec, whose settings explain copy modes and times; `None` to leave explanations out.
    """
    table = named_lines()
    feed = {None: None, True: "yes", False: "no: appends only"}[plan.change_feed]
    unique = {None: "not checked (--check-unique)", True: "yes", False: "NO"}[plan.key_unique]
    amplification = plan.read_amplification_percent
    retention = "not known" if plan.retention_seconds is None else show_seconds(plan.retention_seconds)
    if amplification is not None:
        retention = "not needed: the newest version is read, and no old one is kept"
    resumes = "" if plan.resumes_attempt is None else f"; resumes after attempt {plan.resumes_attempt}"
    for name, value in (
        *places,
        (
            "rows",
            show_rows(plan.rows)
            + (f" in {counted(plan.files, 'file')}, {show_bytes(plan.bytes)}" if plan.files else ""),
        ),
        *(_ways(plan) if explained_by is None else explain_files(plan)),
        *_partition_plan(plan.partitions),
        *([] if plan.version is None else [("version", str(plan.version))]),
        *(_time(plan) if explained_by is None else explain_time(plan, explained_by)),
        ("splits", f"about {plan.splits}"),
        *(() if plan.order is None else (("order", _format_order(plan.order)),)),
        *(
            ()
            if amplification is None
            else (("reads", f"each file {amplification / 100:.1f} times, in the order of a key"),)
        ),
        ("key", f"{', '.join(plan.key_columns) or 'none'}; unique: {unique}"),
        ("transform", "row-wise and deterministic" if plan.deterministic else "NOT deterministic"),
        *([] if feed is None else [("change feed", feed)]),
        ("retention", retention),
        ("", ("the target exists" if plan.target_exists else "the target will be created") + resumes),
        *_target(plan.target),
    ):
        table.add_row(Text(name, style="dim"), Text(value))
    parts: list[RenderableType] = [table]
    for warning in plan.warnings:
        parts.append(Text.assemble((f"{warning.reason}: ", "bold yellow"), warning.message, " ", (warning.hint, "dim")))
    title = Text.assemble(("plan of ", TITLE), (job, f"bold {TITLE}"))
    return Panel(Group(*parts), title=title, title_align="left", border_style="cyan")
