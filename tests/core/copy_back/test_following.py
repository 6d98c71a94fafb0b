"""The source's side of a copy back: whatever dies or writes, the source equals the version of the target that its log names."""

import json
import random
from dataclasses import replace

import pytest
from support.switch_over.copy_world import REQUEST, CopyWorld

from backfill_core.copy_back.following import Stop, adopt_step, app_id, copy_entry, finished, resumed, wait_s
from backfill_core.errors import ReverseEndedError, SwitchBlockedError
from backfill_core.source_fence.fence import LogEntry, Open
from backfill_core.source_fence.table_protocol import TableProtocol
from backfill_core.switch_over.mark import Mark

from support.source_fence.memory_log import table_head  # isort: skip

SEEDS = 150
EFFECTS = 40


def ran(process):
    """Run a process to its end; return the reason."""
    try:
        for _ in range(EFFECTS):
            next(process)
    except StopIteration as ended:
        return ended.value
    return None


class TestTwoProcesses:
    @pytest.mark.parametrize("seed", range(SEEDS))
    def test_that_may_die_anywhere_copy_each_change_once(self, seed):
        """A second process is an undo, or a user who started the command twice."""
        chance = random.Random(seed)
        world = CopyWorld(chance)
        processes = [world.process(), world.process()]

        for _ in range(EFFECTS):
            if chance.random() < 0.3:
                world.write()
            at = chance.randrange(2)
            if chance.random() < 0.1:
                processes[at] = world.process()  # the process died, and was started again
            next(processes[at])
            assert world.source.rows == world.seen[world.stored]
        for _ in range(EFFECTS):
            next(processes[0])

        assert world.source.rows == world.target.rows
        assert world.stored == len(world.target.log) - 1


class TestOthers:
    """The source is an equal copy only as long as no other writer changes it."""

    @pytest.mark.parametrize("copied", [False, True])
    def test_a_foreign_commit_ends_it_by_name_now_and_after_each_start(self, copied):
        """Whether a copy back was the commit before, or none was made yet."""
        world = CopyWorld(random.Random(3))
        process = world.process()
        if copied:
            world.write()
            for _ in range(6):
                next(process)
            assert world.commits == 1
        world.foreign_commit()
        world.write()

        for _ in range(2):
            ended = ran(process)
            assert isinstance(ended, ReverseEndedError)
            assert f"another writer's commit at version {world.head.version}" in ended.message
            process = world.process()

    def test_a_foreign_commit_behind_another_command_is_found(self):
        """The newest entry is the job's own, and an undo would continue with it."""
        world = CopyWorld(random.Random(3))
        world.foreign_commit()
        world.undo_begins()

        assert isinstance(ran(world.process()), ReverseEndedError)

    def test_a_commit_during_a_copy_keeps_the_copy_out(self):
        """The entry is put only directly after the version that was judged."""
        world = CopyWorld(random.Random(3))
        process = world.process()
        world.write()
        next(process)
        next(process)
        world.foreign_commit()

        assert isinstance(ran(process), ReverseEndedError)
        assert world.commits == 0

    def test_a_lifted_fence_ends_it_by_name(self):
        """`backfill unfence --force` lets other writers in."""
        world = CopyWorld(random.Random(3))
        world.lift_by_hand()

        assert f"was lifted at version {world.head.version}" in ran(world.process()).message

    @pytest.mark.parametrize(
        ("command", "stop"), [(CopyWorld.undo_begins, Stop.UNDOING), (CopyWorld.complete, Stop.OPENED)]
    )
    def test_another_command_of_the_job_ends_it_normally(self, command, stop):
        """Before its next commit."""
        world = CopyWorld(random.Random(3))
        process = world.process()
        next(process)
        world.write()
        command(world)

        assert ran(process) is stop
        assert ran(world.process()) is stop
        assert world.commits == 0


class TestAHold:
    """`backfill release` gives the source its own retention back, also while it follows the target."""

    def test_that_the_job_ends_does_not_end_it(self):
        """The entry has no files, and the job wrote it."""
        world = CopyWorld(random.Random(3))
        world.holds()
        process = world.process()
        next(process)
        world.ends_hold()
        world.write()

        assert ran(process) is None
        assert world.commits == 1


class TestAStart:
    """The mark in the source decides whether there is anything to copy."""

    SWITCHED = Mark("Switched", 3, "/lake/v2", 7, "{}", "{}", "", "t")

    def test_on_a_cluster_after_another_command_is_a_normal_end(self):
        """A command on a machine may undo or complete the switch-over while no attempt copies."""
        assert resumed(self.SWITCHED) is self.SWITCHED
        assert resumed(None) is Stop.OPENED
        assert resumed(replace(self.SWITCHED, stage="Undoing")) is Stop.UNDOING

    def test_on_a_cluster_goes_forward_first_after_a_killed_undo(self):
        """An undo on a machine met writes of others, decided to go forward again, and died: no user need act."""
        flipping = replace(self.SWITCHED, stage="Flipping")

        assert resumed(flipping) is flipping

    @pytest.mark.parametrize("stage", [None, "Undoing", "Flipping"])
    def test_of_a_user_needs_a_finished_switch_over(self, stage):
        """Otherwise the user has confused two jobs, or must run a command again."""
        mark = None if stage is None else replace(self.SWITCHED, stage=stage)

        with pytest.raises(SwitchBlockedError, match="no finished switch-over"):
            finished(mark)
        assert finished(self.SWITCHED) is self.SWITCHED


class TestTheTargetAfterAnUndo:
    """The job takes over the files that users added while the target was fenced."""

    def test_is_adopted_once_and_only_under_its_fence(self):
        """Files that come after the fence are not in the source."""
        world = CopyWorld(random.Random(1))
        fenced = world.head

        entry = adopt_step(fenced, REQUEST, application="backfill-x", stored=3, version=8)

        assert isinstance(entry, LogEntry)
        assert '"appId":"backfill-x","version":8' in entry.lines[1]
        assert isinstance(adopt_step(fenced, REQUEST, application="backfill-x", stored=8, version=8), Open)
        with pytest.raises(SwitchBlockedError, match="was lifted during the undo"):
            adopt_step(table_head(), REQUEST, application="backfill-x", stored=3, version=8)


class TestAnEntry:
    def test_has_a_growing_time_before_all_else_if_the_table_needs_it(self):
        """Readers search versions by it, and reject a commit without it."""
        properties = {"delta.enableInCommitTimestamps": "true"}
        plain = table_head(TableProtocol(3, 7, (), ("inCommitTimestamp",)), properties)
        head = replace(plain, timestamp_ms=REQUEST.now_ms + 50)
        mark = Mark("Switched", 3, "/lake/v2", 7, "{}", "{}", "", "t")

        entry = copy_entry(head, REQUEST, mark, upto=9, files=['{"add":{}}'])
        without = copy_entry(table_head(), REQUEST, mark, upto=9, files=[])

        first, second, last = map(json.loads, entry.lines)
        assert next(iter(first["commitInfo"].items())) == ("inCommitTimestamp", REQUEST.now_ms + 51)
        assert second["txn"] == {"appId": app_id(mark), "version": 9, "lastUpdated": REQUEST.now_ms}
        assert last == {"add": {}}
        assert entry.version == head.version + 1
        assert "inCommitTimestamp" not in without.lines[0]


class TestTheWait:
    def test_grows_and_ends(self):
        """A store that does not answer for some minutes ends the command, which can be run again."""
        waits = [wait_s(failures) for failures in range(1, 8)]

        assert waits[-1] is None
        assert waits[:-1] == sorted(waits[:-1])
        assert 60 < sum(waits[:-1]) < 600
