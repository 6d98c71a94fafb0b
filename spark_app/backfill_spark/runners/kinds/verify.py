"""Takes a receipt: compares source and target."""

from __future__ import annotations

from backfill_core.errors import BackfillError, OffsetsExpiredError, TransientError
from backfill_core.protocol.work import Verified, Verify
from backfill_spark.receipts.comparison import compare
from backfill_spark.runners.runner import WorkRunner
from backfill_spark.work.context import WorkContext


def _run(work: Verify, context: WorkContext) -> Verified:
    compared = compare(
        context.tables,
        work.position,
        target_version=work.target_version,
        covered=work.covered,
        cut_off=work.cut_off,
        staged=work.staged,
        check=context.check,
    )
    try:
        return Verified(work.work_id, compared.receipt(epoch=work.epoch))
    except BackfillError:
        raise
    except Exception as error:
        if isinstance(context.tables.explain(error), OffsetsExpiredError):
            raise TransientError(
                "records expired while the receipt read them: the next try leaves them out."
            ) from error
        raise


RUNNER = WorkRunner("Verify", Verify, _run)
