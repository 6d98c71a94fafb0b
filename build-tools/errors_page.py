"""The page about errors, generated from the error classes: reason, exit code, meaning, hint."""

import tomllib
from pathlib import Path

from backfill import control as client
from backfill_core import errors
from backfill_spark import settings

RAISED_FILE = Path(__file__).parent / "raised.toml"
ERRORS_FILE = Path(__file__).parent.parent / "docs" / "errors.md"

INTRODUCTION = """\
<!-- Generated from the classes of errors (backfill_core/errors.py and others) by `make docs`; do not edit. -->
# Errors by reason

A failed run ends with one line that names a **reason**. The status condition, the exit
line and the metrics contain the same reason; renaming one is a change of the API. *Retryable* means that the same step may succeed later without
a change.

| exit code | meaning |
|---|---|
| 0 | complete |
| 1 | an unexpected error; retryable, and worth a report |
| 2 | wrong usage of the command line, or an invalid setting of the process |
| 4 | a command found no running driver |
| 5 | the driver did not acknowledge a command, or refused it |
| 10 | stopped at a barrier on request; the next run resumes |
| 20–39 | the spec or its input is wrong: final until a user changes it; detected before the first commit, or before the affected split or batch was committed |
| 40–59 | source or target changed during the job: final until a user decides |
| 60–79 | transient: the same step may succeed on another try |
| 130 | a second Ctrl-C ended it at once; the next run resumes at the last commit |
| 141 | the reader of standard output closed it, as in `backfill status --watch \\| head`; `run` stops at a barrier instead (10) |
"""

SECTIONS = (
    ("Reasons of a run", "A job ends with one of these.", (errors,)),
    (
        "Reasons of the command line",
        "A command ends with one of these; the job itself is unchanged.",
        (client, settings),
    ),
)
"""Heading, explanation, and the modules whose classes each section lists; a class of another module fails the build."""

HINTS = {
    "InvalidSpec": "Correct the field that the message names; it suggests the nearest known name. `backfill validate -f FILE` checks without running.",
    "InvalidTransform": "Use row-wise, deterministic expressions over columns of the source: no aggregates, no windows, no `rand()`, no `current_timestamp()`.",
    "SourceNotFound": "Check the path or the name in `spec.source.delta`.",
    "UnsupportedSourceFeature": "Drop the feature that the message names from the source, rename the column, or read a copy without the feature.",
    "BadRecord": "Set `onBadRecord: Quarantine` and `quarantinePath` in the source, leave such records out with `spec.transform.where`, or convert them in `spec.transform.select` (`try_cast`, `coalesce`). Committed rows stay, and the next run resumes.",
    "KeyInvalid": "Set columns in `spec.source.delta.key` that are never null and unique together.",
    "KeyNotUnique": "Add columns to `spec.source.delta.key` until they are unique, or remove the duplicate rows from the source. If the error occurred after the copy (large sources), also use a new target.",
    "TargetNotFound": "Create the table or its database in the catalog, or set `spec.target.delta.path`.",
    "TargetNotEmpty": "Choose a target that does not exist yet, or, with `writeMode: Append` or `Changelog`, set `spec.target.delta.existingRows: Keep` if its rows may stay.",
    "UnsupportedTargetFeature": "Choose another target, or drop the feature that the message names from it; `docs/operating.md` lists unsupported features.",
    "TargetIsSource": "Choose a target other than the source, in a separate folder.",
    "PermissionDenied": "Give the user of the driver read access to the source, and write access to the target and its log.",
    "TargetSchemaMismatch": "Change `spec.transform.select` so that it returns the columns of the target in their types, or choose a new target.",
    "SessionUnfit": "Add the lines in the message to the session's builder, and build it again; or pass no session. See `docs/python.md`.",
    "NotFinished": "Let the job finish, or abandon it with `backfill release --force`; its rows stay in the target.",
    "JarsMissing": "Check the network and the package mirrors, or set `BACKFILL_JARS_DIR` to a folder with the jars.",
    "JavaMissing": "Install Java 17 or 21, or set `JAVA_HOME` to an installation of one of them.",
    "StateMismatch": "Run the spec with which the job was started, or choose a new target; source, transform, target and strategy of a started job are fixed.",
    "SnapshotExpired": "Start again with a new target, and keep removed files of the source longer than a run takes (`delta.deletedFileRetentionDuration`).",
    "ChangeFeedExpired": "Start again with a new target, and keep the log of the source longer than a run takes (`delta.logRetentionDuration`).",
    "OffsetsExpired": "Start again with a new target, and keep the records of the topic longer than a run takes (`retention.ms`, `retention.bytes`).",
    "ChangeFeedMissing": "Set `delta.enableChangeDataFeed` on the source, then start again with a new target: earlier changes are not in the feed.",
    "SourceReplaced": "Start again with a new target: the table under this path is not the one that was pinned.",
    "SchemaChanged": "Undo the change of the column that the message names, or start again with a new target; `schemaChange: Ignore` permits added columns, `Follow` (strategy `Replica`) applies added and renamed columns to the target.",
    "SourceNotAppendOnly": "Use `writeMode: Upsert` or `Changelog` with a new target.",
    "Fenced": "Nothing to do if a newer attempt runs. Otherwise search for a second driver of the same job.",
    "TargetTaken": "Give each job a separate target, or wait until the other job is finished. `Append` and `Changelog` jobs may share a target if each sets `spec.target.delta.existingRows: Keep`.",
    "TargetChanged": "Stop other writers of the target until the job is finished, then run it again: it takes a new receipt.",
    "StagedFilesGone": "Do not run VACUUM with a short retention on the target while a job fills it. The run resumes at its last commit.",
    "JavaDied": "Give the driver more memory (`BACKFILL_MEMORY`; on a cluster `spec.driver.resources`), or the machine. The run resumes at its last commit.",
    "CommitStalled": "Run again; the run resumes at its last commit. If it happens again, check the target's store and the network.",
    "SourceAhead": "The job has ended, and the source has changed since. Create a new Backfill with `after: Follow` if the target must follow the source.",
    "VerificationFailed": "Another writer wrote to the target, or this is a bug. Compare the vnodes that the message names; keep the target as evidence.",
    "AccountingMismatch": "A bug or a damaged source file; the split was not committed. Report it with the message.",
    "SourceDamaged": "Restore the file that the message names, or repair the source with `RESTORE` or `FSCK`; then start again: the run resumes at its last commit.",
    "TargetDamaged": "Restore the file that the message names from a backup, or start again with a new target.",
    "TargetGone": "Run the job again: it starts from the beginning and creates the table. Drop a target only when no driver of its job runs.",
    "StorageFull": "Free space on the storage of the target and run again; the run resumes at its last commit.",
    "Transient": "Run again; the run resumes at its last commit. If a connection times out on a cluster, add the store to the chart's `networkPolicy.egress.to`.",
    "InvalidSetting": "Correct or unset the variable that the message names; see [settings of the process](operating.md#settings-of-the-process).",
    "NotRunning": "Start the job, or name it with `-f FILE` or `--job ID`; `backfill jobs` lists running jobs. Without a driver: `backfill status --offline`, `backfill verify -f FILE`.",
    "DriverStarting": "The driver is opening Spark and both tables: send the command again in some seconds, or wait longer with `--timeout`.",
    "CommandRefused": "Check the current settings with `backfill status`, then send the command again: another client may have been faster, or another attempt runs now.",
    "NotAcknowledged": "The driver has the command: check with `backfill status` whether it is in effect, or wait longer with `--timeout`. A commit may be slow.",
    "AlreadyRunning": "Use the running driver (`backfill status`), or stop it (`backfill stop`) before starting another.",
}
"""The fix for each reason; a reason without a hint fails the build."""


RAISED_WORDS = (
    "An error of Spark, Delta, Kernel or a file system gets its reason from the step and the table. "
    "A test provokes each row."
)
STEPS = {
    "pin": "a version of the source is pinned",
    "check": "the target is checked, before anything is written",
    "create": "the target is created",
    "stage": "history is read and staged",
    "changes": "changes are read",
    "seal": "a commit is written",
    "merge": "changes are merged",
    "verify": "source and target are compared",
}
"""Steps of a job, in their order."""


def raised() -> list[str]:
    """Return the table of the errors of each step; an unknown step or reason fails the build."""
    reasons = {errors.UnexpectedError.reason, *(kind.reason for kind in classes())}
    lines = ["| while | error | reason |", "|---|---|---|"]
    table = tomllib.loads(RAISED_FILE.read_text())
    if list(table) != list(STEPS):
        raise KeyError(f"steps {list(table)}")
    for step, rows in table.items():
        for what, reason in rows.values():
            if reason not in reasons:
                raise KeyError(reason)
            lines.append(f"| {STEPS[step]} | {what} | `{reason}` |")
    return lines


def classes() -> list[type[errors.BackfillError]]:
    """Return every error class of a run or command with its own reason, by exit code, without those of the operator."""
    kinds: list[type[errors.BackfillError]] = []
    todo: list[type[errors.BackfillError]] = [errors.BackfillError]
    while todo:
        for kind in todo.pop().__subclasses__():
            if "reason" in vars(kind) and not kind.__module__.startswith("backfill_operator"):
                kinds.append(kind)
            todo.append(kind)
    return sorted(kinds, key=lambda kind: (kind.exit_code, kind.reason))


def render() -> str:
    """Return the page.

    Raises:
        KeyError: a reason has no hint, or its module no section.
    """
    homes = {module.__name__: heading for heading, _, modules in SECTIONS for module in modules}
    rows: dict[str, list[str]] = {heading: [] for heading, _, _ in SECTIONS}
    for kind in classes():
        meaning = (kind.__doc__ or "").splitlines()[0]
        retryable = "yes" if kind.retryable else "no"
        rows[homes[kind.__module__]].append(
            f"| `{kind.reason}` | {kind.exit_code} | {retryable} | {meaning} | {HINTS[kind.reason]} |"
        )
    lines = [INTRODUCTION]
    for heading, explanation, _ in SECTIONS:
        table = ["| reason | exit code | retryable | meaning | hint |", "|---|---|---|---|---|"]
        lines += [f"## {heading}", "", explanation, "", *table, *rows[heading], ""]
    lines += ["## Errors by step", "", RAISED_WORDS, "", *raised(), ""]
    return "\n".join(lines)
