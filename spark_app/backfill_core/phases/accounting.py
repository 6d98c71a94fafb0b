"""Rows that must agree: those a job wrote, those its files hold, and those the source's metadata promises."""

from __future__ import annotations

from backfill_core.errors import AccountingError, StagedFilesGoneError

GONE_HINT = "Run no VACUUM with a short retention on the target while the job runs; they are staged again."


def check_staged(what: str, *, written: int, found: int) -> None:
    """Compare what a job wrote with what the footers of its files say.

    Raises:
        StagedFilesGoneError: files were removed before anybody looked at them.
        AccountingError: the files hold rows that the job did not write.
    """
    if found < written:
        raise StagedFilesGoneError(
            f"{written:,} rows of {what} were staged, and the files that are there hold {found:,}.", hint=GONE_HINT
        )
    if found > written:
        raise AccountingError(
            f"{written:,} rows of {what} were staged, and the files that are there hold {found:,}.",
            hint="Another program writes into the folder of the staged files.",
        )


def check_read(what: str, *, read: int, promised: int) -> None:
    """Compare what whole files yielded with what their metadata says, minus deleted rows.

    Raises:
        AccountingError: they differ.
    """
    if read != promised:
        raise AccountingError(
            f"{what} yielded {read} rows, the table's metadata says {promised}.",
            hint="The source's statistics are wrong, or files were overwritten in place.",
        )
