"""Obstacles of a switch-over: everything that a check finds before the source is fenced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from backfill_api.amounts import counted
from backfill_api.spec.params import TargetAbility
from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import InvalidSpecError, SwitchBlockedError, UnsupportedSourceFeatureError
from backfill_core.source_fence.fence import TableHead
from backfill_core.source_fence.fenceable import check_fenceable
from backfill_core.source_fence.table_protocol import SWITCHED_FROM
from backfill_core.switch_over.mark import Mark, mark_of


@dataclass(frozen=True, slots=True)
class Findings:
    """State of both tables and of the name, read before anything is changed."""

    source: TableHead
    target: TableHead | None
    """`None` if the target has no state of the job."""

    job: str
    behind: int | None
    """Versions of the source that the target lacks; `None` if the history is not complete."""

    lag_s: float
    """Seconds since the newest version of the source if the target lacks a version; else 0."""

    key_proven: bool
    """True if the key is proven unique, or needs no proof."""

    name: str | None
    """Folder to which the name of the flip points; `None` if the flip changes no name."""

    has_name: bool
    """True if the flip changes a name."""

    receipt_s: float | None
    """Duration of the last receipt, in seconds; `None` before the first."""

    receipt_age_s: float | None
    """Seconds since the last receipt; `None` before the first."""

    paused: bool = False
    """True if the job applies no changes until it is resumed."""

    irreversible: str = ""
    """Reason why the source cannot follow the target; empty if it can, or need not."""


def check_spec(spec: BackfillSpec) -> None:
    """Reject a spec that no switch-over can have.

    Raises:
        InvalidSpecError: names the field.
    """
    if spec.after != "Follow":
        raise InvalidSpecError(
            f"spec.after: a switch-over needs a job that follows its source, and it is {spec.after}.",
            hint="Set after: Follow and run the job again: it continues from the position that its target holds.",
        )
    if spec.source.params.skips_snapshot:
        raise InvalidSpecError(
            f"spec.source.{spec.source.member}.changesOnly: a switch-over compares whole tables, and rows that never changed were "
            "not copied by this job.",
            hint="Fill a new target with another jobId, without changesOnly, and switch over to that.",
        )
    if spec.target.params.existing_rows == "Keep":
        raise InvalidSpecError(
            f"spec.target.{spec.target.member}.existingRows: Keep: a switch-over compares whole tables, and kept rows are not in the "
            "source.",
            hint="Use a target that only this job fills.",
        )
    if spec.write_mode == "Changelog":
        raise InvalidSpecError(
            f"spec.target.{spec.target.member}.writeMode: a changelog has a row for each change, so it cannot replace the source.",
            hint="Use writeMode: Upsert or Append.",
        )
    if spec.switch.keep_source == "Following":
        _check_following(spec)


def _check_following(spec: BackfillSpec) -> None:
    """Reject a job whose files cannot be copied back."""
    if TargetAbility.SHIPPING not in spec.strategy.variant.needs:
        raise InvalidSpecError(
            f"spec.switch.keepSource: Following copies whole files back, which strategy {spec.strategy.type} does not copy.",
            hint="Use keepSource: Fenced, or copy the table with strategy Replica.",
        )
    if spec.transform.select or spec.transform.where is not None:
        field = "select" if spec.transform.select else "where"
        raise InvalidSpecError(
            f"spec.switch.keepSource: Following needs equal tables, and spec.transform.{field} changes the rows.",
            hint="Use keepSource: Fenced, or a job without a transform.",
        )


def obstacles(findings: Findings, *, max_lag_s: float) -> tuple[str, ...]:
    """Return each reason why a switch-over cannot begin; empty if it can."""
    return (*_until_caught_up(findings, max_lag_s), *_lasting(findings))


def may_pass(findings: Findings) -> bool:
    """Return True if each obstacle may end while the driver follows, so that a user need not remove any.

    Columns of a target that is behind may differ only until it has caught up.
    """
    return not any(_lasting(findings if findings.behind == 0 else replace(findings, irreversible="")))


def _until_caught_up(findings: Findings, max_lag_s: float) -> Iterator[str]:
    if findings.behind is None:
        yield "the target does not hold the whole history yet: wait until the job has caught up"
    elif findings.lag_s > max_lag_s:
        versions = counted(findings.behind, "version")
        yield f"the target lacks {versions} of {findings.lag_s:.0f} s, above --max-lag {max_lag_s:g} s: let the driver run until it has caught up"
    if not findings.key_proven:
        yield "the key of the target is not proven unique yet: wait until the job has caught up"


def _lasting(findings: Findings) -> Iterator[str]:
    if findings.paused and findings.behind:
        yield f"the job is paused, and the target lacks {counted(findings.behind, 'version')}: resume it"
    if findings.target is not None and findings.target.protocol.is_fenced:
        yield f"the target {findings.target.path} is read-only ({findings.target.fence}): lift its fence first"
    elif findings.target is not None and (reason := _unfenceable(findings.target)):
        yield f"an undo must fence the target: {reason}"
    if findings.irreversible:
        yield f"spec.switch.keepSource: Following is not possible: {findings.irreversible}"
    if findings.has_name and findings.name != findings.source.path:
        pointed = findings.name or "no folder"
        yield f"spec.switch.flip: the name points to {pointed}, not to the source {findings.source.path}"


def _unfenceable(target: TableHead) -> str:
    """Return why a table cannot be fenced; empty if it can."""
    try:
        check_fenceable(target.path, target.protocol, target.metadata)
    except UnsupportedSourceFeatureError as error:
        return error.message.rstrip(".")
    return ""


def check_mark(mark: Mark | None, *, target: str, flip: str) -> None:
    """Reject a spec that differs from that of the switch-over that is under way.

    Raises:
        SwitchBlockedError: names the field.
    """
    if mark is None:
        return
    if mark.target != target:
        raise SwitchBlockedError(
            f"spec.target: a switch-over of the source to {mark.target} is under way, and this target is {target}.",
            hint="Use the spec of that switch-over.",
        )
    if mark.flip != flip:
        raise SwitchBlockedError(
            f"spec.switch.flip: the switch-over under way has {mark.flip}, and this spec has {flip}.",
            hint="Use the spec of that switch-over until it is completed or undone.",
        )


def check_not_in_use(source: TableHead, target: TableHead | None, spec: BackfillSpec, *, path: str) -> None:
    """Refuse a new copy into a table to which the source was switched over, until an undo or a word of the user.

    The job left this table with the flip, and writers of the name use it. A copy would add the source's rows to theirs. The mark in the
    source ends with the switch-over; the folder that the target stores stays.

    Args:
        source: Newest version of the source.
        target: Newest version of the target; `None` if there is no table.
        spec: The spec of the copy.
        path: Path of the target.

    Raises:
        SwitchBlockedError: names the field, and the way that is open.
    """
    field = f"spec.target.{spec.target.member}"
    mark = mark_of(source)
    if mark is not None and mark.target == path:
        raise SwitchBlockedError(
            f"{field}: {path} has replaced {source.path} since {mark.time}, and a new copy would add the old rows to it.",
            hint="Give a new copy another jobId and another target; or go back with `backfill switch --undo`, then the job continues.",
        )
    if target is not None and target.properties.get(SWITCHED_FROM) == source.path:
        raise SwitchBlockedError(
            f"{field}: a completed switch-over has replaced {source.path} with {path}, and a new copy would add the old rows to it.",
            hint="Give a new copy another target. If this table gets the old rows on purpose, use another jobId, and allow it: "
            f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('{SWITCHED_FROM}').",
        )
