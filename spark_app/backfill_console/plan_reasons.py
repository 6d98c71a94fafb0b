"""Explanations in a plan: the reasons of each copy mode, and the settings and estimates behind the time of each step.

Everything comes from the plan and the spec. Nothing is computed again.
"""

from __future__ import annotations

from backfill_api.amounts import counted, show_seconds
from backfill_api.spec.override import ThrottleSpec
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.plan import Plan, PlannedStep
from backfill_console.formatting import STEP_WORDS, WAY_WORDS, show_bytes, show_rows

WAY_REASONS = {
    "Whole": "the target has all of their columns, under the same names",
    "Projected": "the target leaves out some of their columns, or gives them other names",
    "Grafted": "the transform computes some of their columns, and takes at least as many",
    "Hidden": "the log does not decide the filter, so its columns are read first; a file most of whose rows fail is decoded",
    "Excluded": "partition values or statistics in the source's log decide the filter",
}
"""The reason of each copy mode for which a plan contains none."""


def explain_files(plan: Plan) -> list[tuple[str, str]]:
    """Return a line for each copy mode, and a line for each of its reasons."""
    if not plan.ways:
        line = "all of their rows are read and written: no copy mode is chosen for each file"
        return [("files", line)] if plan.files and plan.rows else []
    lines = []
    for group in plan.ways:
        percent = 100 * group.files / max(plan.files, 1)
        lines.append(f"{group.files:,} of {plan.files:,} ({percent:.0f} %) {WAY_WORDS.get(group.way, group.way)}")
        reasons = group.reason or WAY_REASONS.get(group.way, "")
        lines += [f"  - {reason}" for reason in reasons.split("; ") if reason]
    return [("" if index else "files", line) for index, line in enumerate(lines)]


def explain_time(plan: Plan, spec: BackfillSpec) -> list[tuple[str, str]]:
    """Return the time of the job, and that of each step with its reasons."""
    low, high = show_seconds(plan.estimated_seconds_low), show_seconds(plan.estimated_seconds_high)
    lines = [f"about {show_seconds(plan.estimated_seconds)}; nine jobs of ten take {low} to {high}"]
    if plan.resumes_attempt is not None and plan.steps:
        lines.append(f"of the whole job: attempt {plan.resumes_attempt} has completed a part of it")
    for step in plan.steps:
        lines.append(f"{STEP_WORDS.get(step.name, step.name)} {show_seconds(step.seconds)}")
        lines += [f"  - {reason}" for reason in _reasons(step, plan, spec)]
    if plan.steps and not any(step.name == "Receipt" for step in plan.steps):
        setting = "verify: None" if spec.verify == "None" else f"after: {spec.after}"
        lines.append(f"no receipt, because of {setting}")
    return [("" if index else "time", line) for index, line in enumerate(lines)]


def _reasons(step: PlannedStep, plan: Plan, spec: BackfillSpec) -> list[str]:
    """Return the settings and estimates that led to the time of a step."""
    match step.name:
        case "Start":
            return ["Spark and both tables are opened, as for this plan; then the target is prepared"]
        case "Copy":
            return _copy_reasons(step, plan, spec.throttle)
        case "KeyProof":
            return [f"the key ({', '.join(plan.key_columns)}) is proven unique at the rate of the sample"]
        case "CatchUp" if step.seconds:
            since = "" if plan.version is None else f" after version {plan.version}"
            return [f"the source already has changes{since}", *_part_reasons(plan, spec)]
        case "CatchUp":
            return ["the source has no newer changes yet", *_part_reasons(plan, spec)]
        case "Receipt":
            return [f"source and target are compared at the rate of the sample, because of verify: {spec.verify}"]
    return []


def _part_reasons(plan: Plan, spec: BackfillSpec) -> list[str]:
    """Return the size above which a batch of changes is merged in parts."""
    part_bytes = spec.strategy.params.part_bytes
    if part_bytes is None or spec.write_mode != "Upsert":
        return []
    size = f"more than {show_bytes(part_bytes)} of changed files"
    return [
        f"a batch with {size} is merged in parts of the key ({', '.join(plan.key_columns)}), each with its own commit"
    ]


def _copy_reasons(step: PlannedStep, plan: Plan, throttle: ThrottleSpec) -> list[str]:
    """Return the amount, the average rate and the limits of the copy."""
    if not plan.rows:
        return ["the source has no rows"]
    rate = f", on average {show_rows(round(plan.rows / step.seconds))} rows/s" if step.seconds else ""
    reasons = [
        f"{counted(plan.rows, 'row')} in about {counted(plan.splits, 'split')}{rate}",
        "the rate is an estimate from a sample that this machine read and wrote",
    ]
    limits = (
        ("rowsPerSecond", throttle.rows_per_second, show_rows),
        ("bytesPerSecond", throttle.bytes_per_second, show_bytes),
    )
    for name, limit, show in limits:
        if limit is not None:
            ignored = "" if limit else ": no rows are copied until it is raised, and the time ignores it"
            reasons.append(f"limited by throttle.{name}, {show(limit)}{ignored}")
    return reasons
