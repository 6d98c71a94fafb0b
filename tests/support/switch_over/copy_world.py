"""A world for the core of a copy back: two processes that may die between any two effects, users of the target, other commands."""

import json
from dataclasses import replace

from support.source_fence.memory_log import FIRST_MS, after_entry, table_head
from support.switch_over.copies import Side, shipped

from backfill_core.copy_back.following import SourceCommit, app_id, copy_entry, judge
from backfill_core.errors import ReverseEndedError
from backfill_core.log_shipping.folding import beginning, fold
from backfill_core.source_fence.fence import SWITCHING, LogEntry, Request, fence_step, unfence_step
from backfill_core.source_fence.hold import end_hold_step, hold_step
from backfill_core.switch_over.mark import Mark, lift_step, record_step

JOB = "shop/orders"
REQUEST = Request(JOB, "2026-11-26T22:00:00Z", FIRST_MS, "entry", "switch-over", SWITCHING)
BYTES_MAX = 250


class CopyWorld:
    """The target has its users; the source has a fence, a mark, and the lines of each commit after them."""

    def __init__(self, chance):
        self.chance = chance
        self.target, self.source = Side(), Side()
        self.target.write(chance)
        shipped(self.target, self.source, 0)
        self.seen = {len(self.target.log) - 1: self.target.rows}
        """Rows of each version of the target."""

        self.head, self.lines, self.commits = table_head(), {}, 0
        self.put(fence_step(self.head, REQUEST))
        self.fence_version = self.head.version
        self.mark = Mark("Switched", self.head.version, "/lake/v2", len(self.target.log) - 1, "{}", "{}", "", "t")
        self.put(record_step(self.head, REQUEST, self.mark, before=None))

    # -------------------------------------------------------------- the source's log
    def put(self, entry):
        """Write an entry if its version does not exist yet."""
        if not isinstance(entry, LogEntry) or entry.version != self.head.version + 1:
            return
        self.lines[entry.version] = [json.loads(line) for line in entry.lines]
        if any("metaData" in action for action in self.lines[entry.version]):
            self.head = after_entry(self.head, entry)
        else:
            self.head = replace(self.head, version=entry.version)

    def foreign_commit(self):
        """Commit as a writer that ignores the protocol."""
        info = {"engineInfo": "Apache-Spark/4.2", "operation": "WRITE", "operationParameters": {}}
        self.head = replace(self.head, version=self.head.version + 1)
        self.lines[self.head.version] = [{"commitInfo": info}, {"add": {"path": "x"}}]

    def lift_by_hand(self):
        """Lift the fence as `backfill unfence --force` does."""
        self.put(unfence_step(self.head, REQUEST, force=True))

    def holds(self):
        """Extend the retention as a job with `hold: Extend` does."""
        self.put(hold_step(self.head, REQUEST, lambda *_: 0))

    def ends_hold(self):
        """Restore the retention as `backfill release` does."""
        self.put(end_hold_step(self.head, REQUEST))

    def undo_begins(self):
        """Store another stage of the mark."""
        self.put(record_step(self.head, REQUEST, replace(self.mark, stage="Undoing"), before=self.mark))

    def complete(self):
        """Lift the fence as `backfill switch --complete` does."""
        self.put(lift_step(self.head, REQUEST, self.mark))

    def commits_after(self, version):
        """Return the facts about commits, as a process reads them."""
        return [SourceCommit.of(at, self.lines[at]) for at in range(version + 1, self.head.version + 1)]

    @property
    def stored(self):
        """Return the version of the target that the source's log names."""
        mine = [action["txn"]["version"] for lines in self.lines.values() for action in lines
                if action.get("txn", {}).get("appId") == app_id(self.mark)]  # fmt: skip
        return max(mine, default=self.mark.target_version)

    # -------------------------------------------------------------- users and processes
    def write(self):
        """Let users change the target."""
        self.target.write(self.chance)
        self.seen[len(self.target.log) - 1] = self.target.rows

    def process(self):
        """Copy back; yield between effects. Return the reason of the end."""
        judged = None
        while True:
            head, position = self.head, self.stored
            try:
                stop = judge(head, self.mark, JOB, self._unjudged(judged))
            except ReverseEndedError as error:
                return error
            if stop is not None:
                return stop
            judged = head.version
            yield
            versions = tuple(beginning(iter(self.target.log[position + 1 :]), bytes_max=BYTES_MAX)) if (
                len(self.target.log) > position + 1
            ) else ()  # fmt: skip
            if not versions:
                yield
                continue
            upto = versions[-1].version
            step = self.source.files().step(fold(versions))
            planned = self.source.applied(step, self._files_at(upto))
            yield
            entry = copy_entry(head, REQUEST, self.mark, upto=upto, files=[_line(*change) for change in planned])
            if entry.version == self.head.version + 1:
                self.put(entry)
                self.source.take(planned)
                self.commits += 1
            yield

    def _unjudged(self, judged):
        if judged is not None:
            return self.commits_after(judged)
        commits = []
        for commit in reversed(self.commits_after(self.fence_version)):
            commits.append(commit)
            if commit.ends_the_search(self.mark):
                break
        return list(reversed(commits))

    def _files_at(self, version):
        """Return the files of a version of the target, by path; contents never change."""
        files = {}
        for logged in self.target.log[: version + 1]:
            for file in logged.files:
                files.pop(file.path, None)
            files |= {file.path: file for file in logged.files if hasattr(file, "vector")}
        return {
            path: (self.target.contents[path], file.vector.rows if file.vector else 0) for path, file in files.items()
        }


def _line(kind, path, _):
    return json.dumps({kind: {"path": path}})
