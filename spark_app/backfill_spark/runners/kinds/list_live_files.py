"""Lists the files of the newest version of a live table."""

from __future__ import annotations

from backfill_core.in_place.work import ListLiveFiles, LiveFilesListed
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.sink import LiveTarget
from backfill_spark.runners.runner import WorkRunner
from backfill_spark.work.context import WorkContext


def _run(work: ListLiveFiles, context: WorkContext) -> LiveFilesListed:
    target = ability(context.tables.sink, LiveTarget)
    version, files, scope = target.live_files(work.opened)
    rewrites = target.recent_rewrites(version) if work.first else 0
    return LiveFilesListed(work.work_id, version, tuple(files), scope, rewrites)


RUNNER = WorkRunner("ListLiveFiles", ListLiveFiles, _run)
