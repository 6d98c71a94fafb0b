"""Checks that row counts agree: rows that a job wrote, rows in its files, and rows in the source's metadata."""

from __future__ import annotations

from backfill_core.errors import AccountingError, StagedFilesGoneError

GONE_HINT = "Run no VACUUM with a short retention on the target while the job runs. The job stages the files again."


def check_staged(what: str, *, written: int, found: int) -> None:
    """Compare the rows that a job wrote with the footers of its files.

    Raises:
        StagedFilesGoneError: files were removed before they were checked.
        AccountingError: the files contain rows that the job did not write.
    """
    if found < written:
        raise StagedFilesGoneError(
            f"{written:,} rows of {what} were staged, but their files contain {found:,} rows.", hint=GONE_HINT
        )
    if found > written:
        raise AccountingError(
            f"{written:,} rows of {what} were staged, but their files contain {found:,} rows.",
            hint="Another program writes into the folder of the staged files.",
        )


def check_read(what: str, *, read: int, promised: int) -> None:
    """Compare the rows that whole files yielded with their metadata, minus deleted rows.

    Raises:
        AccountingError: they differ.
    """
    if read != promised:
        raise AccountingError(
            f"{what} yielded {read} rows, but the table's metadata records {promised}.",
            hint="The source's statistics are wrong, or files were overwritten in place.",
        )
