"""Decides about a file after its rows that fail the filter were counted.

failing rows                     the file
------------------------------   ----------------------------------------------------------------
none                             copied unchanged, with the source's deletion vector
at most half of the visible      copied; the deletion vector also hides the failing rows
more, but not all                decoded: only the rows that pass are written
all                              left out

Copying costs about the same for any number of failing rows, and each of them costs every reader of the target as much as a
visible row. So a file whose hidden rows would outnumber its visible ones is written without them.
"""

from __future__ import annotations

from enum import Enum, auto

from backfill_core.errors import AccountingError

HIDDEN_PER_VISIBLE_MAX = 1
"""Maximum number of hidden rows for each row that stays visible."""


class Outcome(Enum):
    """Treatment of a file whose failing rows are known."""

    UNCHANGED = auto()
    HIDE = auto()
    DECODE = auto()
    LEAVE_OUT = auto()


def outcome(name: str, *, visible: int, failing: int) -> Outcome:
    """Return the treatment of a file.

    Args:
        name: The file, for messages.
        visible: Number of rows that readers of the source see, according to its log.
        failing: Number of these rows for which the filter is false or null.

    Raises:
        AccountingError: more rows fail than the log has.
    """
    if failing > visible:
        raise AccountingError(
            f"{failing:,} rows of {name} fail spec.transform.where, but the table's metadata records {visible:,} rows.",
            hint="The source's statistics are wrong, or files were overwritten in place.",
        )
    if failing == visible:
        return Outcome.LEAVE_OUT
    if failing == 0:
        return Outcome.UNCHANGED
    return Outcome.HIDE if failing <= HIDDEN_PER_VISIBLE_MAX * (visible - failing) else Outcome.DECODE
