"""Rules of a repair: the jobs that allow it, the state of its commits, and its receipt."""

from dataclasses import replace

import pytest
from support.endings import assert_ending
from support.tables.jobs import job

from backfill_core.errors import NotFinishedError, NotRepairableError, SnapshotExpiredError, TransientError
from backfill_core.job.repair import (
    RepairState,
    check_complete,
    check_repairable,
    check_replacement,
    expired_for_repair,
    repaired_receipt,
)
from backfill_core.job.state import JobState
from backfill_core.protocol.epochs import txn_version
from backfill_core.protocol.publication import Publication
from backfill_core.protocol.receipt import FileDifference, TableReceipt, VnodeMismatch

DIFFERS = TableReceipt(4, 9, 3, 100, 256, "abc", (VnodeMismatch(7, 3, 2), VnodeMismatch(9, 1, 1)), 2.0)
STATE = JobState(
    "ns/job", "hash", attempt=2, epoch=40, strategy="Arrangement", consumed=4, receipt=DIFFERS, finished=True
)


def spec(**changes):
    """Return the spec of a job."""
    return job("s", "t", **({"verify": "Final"} | changes)).spec


class TestWhichJobsAreRepaired:
    """A job without a version to return to is refused, and the message names the field."""

    @pytest.mark.parametrize("receipt", [DIFFERS, replace(DIFFERS, mismatches=())], ids=["differs", "equal"])
    def test_a_job_with_any_receipt_is_repaired(self, receipt):
        """An equal receipt may be older than the damage."""
        check_repairable(spec(), replace(STATE, receipt=receipt))

    @pytest.mark.parametrize(
        ("changes", "state", "message"),
        [
            ({"verify": "None"}, {"receipt": None}, "no receipt: spec.verify is None"),
            ({}, {"consumed": {"0": 7}}, "spec.source.type is Delta, whose records have offsets"),
            ({"target": {"writeMode": "Changelog"}}, {}, "spec.target.delta.writeMode is Changelog"),
            (
                {"verify": "None", "source": {"key": []}, "target": {"writeMode": "Append", "existingRows": "Keep"}},
                {},
                "spec.target.delta.existingRows is Keep",
            ),
            (
                {"target": {"publish": "WhenVerified"}},
                {"publication": Publication()},
                "spec.target.delta.publish is WhenVerified, and the rows of the job are staged",
            ),
            ({"target": {"scope": "day = 1", "publish": "WhenVerified"}}, {}, "spec.target.delta.scope is set"),
        ],
    )
    def test_a_job_that_cannot_be_repaired_is_refused_by_name(self, changes, state, message):
        """Each message contains the field and its value."""
        with pytest.raises(NotRepairableError, match=message) as refused:
            check_repairable(spec(**changes), replace(STATE, **state))

        assert_ending(refused.value, "NotRepairable")

    def test_a_target_with_published_rows_is_repaired(self):
        """Afterwards it is a target as any other."""
        check_repairable(
            spec(target={"publish": "WhenVerified"}), replace(STATE, publication=Publication(published=True))
        )

    def test_a_partial_copy_is_refused(self):
        """The rows that it lacks are not copied yet."""
        check_complete(None)
        with pytest.raises(NotFinishedError, match="the copy is not complete"):
            check_complete(((0, 7),))

    def test_rows_are_only_removed_from_a_table_that_allows_it(self):
        """Missing rows can be added to a table without removals; the message names property, value and remedy."""
        append_only = {"delta.appendOnly": "true"}
        check_replacement(append_only, removed=0, added=3)
        check_replacement({}, removed=4, added=3)
        removes = (
            r"delta.appendOnly = true, which forbids the removal of rows, and the repair must remove 4 of its rows\."
        )
        with pytest.raises(NotRepairableError, match=removes) as refused:
            check_replacement(append_only, removed=4, added=0)
        assert "UNSET TBLPROPERTIES ('delta.appendOnly')" in refused.value.hint

    def test_rows_are_not_replaced_in_a_table_with_a_change_feed(self):
        """Missing rows alone can be added, and surplus rows alone can be removed."""
        feed = {"delta.enableChangeDataFeed": "true"}
        check_replacement(feed, removed=0, added=3)
        check_replacement(feed, removed=4, added=0)
        replaces = r"delta.enableChangeDataFeed = true, for which .* must remove 4 of its rows and add others"
        with pytest.raises(NotRepairableError, match=replaces) as refused:
            check_replacement(feed, removed=4, added=3)
        assert_ending(refused.value, "NotRepairable")
        assert "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')" in refused.value.hint

    def test_only_a_version_that_is_gone_gets_the_way_out(self):
        """An error that a retry may solve stays as it is."""
        away = TransientError("away")

        gone = expired_for_repair(SnapshotExpiredError("no file"), "version 4")

        assert "at version 4, which is gone: no file" in gone.message
        assert "backfill run --refresh" in gone.hint
        assert expired_for_repair(away, "version 4") is away


class TestTheStatesOfARepair:
    """A repair is an attempt: no older attempt can commit after its first commit, and the job's progress stays."""

    def test_each_commit_is_newer_than_the_one_before(self):
        """Delta rejects an older transaction version, and none means that rows were dropped."""
        begun = RepairState.begun(STATE, driver="d", now_ms=5)
        repaired = begun.with_receipt(DIFFERS, now_ms=6)
        verified = repaired.with_receipt(replace(DIFFERS, mismatches=()), now_ms=7)

        versions = [txn_version(2, 40), begun.txn_version, repaired.txn_version, verified.txn_version]
        assert versions == sorted(set(versions))
        assert begun.state.attempt == 3
        assert not any(state.state.dropped(state.txn_version) for state in (begun, repaired, verified))

    def test_a_repair_leaves_the_progress_of_the_job(self):
        """The next run continues as if there had been no repair."""
        done = RepairState.begun(STATE, driver="d", now_ms=5).with_receipt(DIFFERS, now_ms=6).state

        same = replace(done, attempt=2, epoch=40, driver="", committed_ms=None, receipt=DIFFERS)
        assert same == STATE
        assert done.receipt.verified_ms == 6

    def test_the_receipt_after_a_repair_covers_all_vnodes(self):
        """Only the repaired vnodes are compared again; the others were equal at the version before."""
        vnodes = replace(DIFFERS, target_version=12, rows=4, mismatches=(VnodeMismatch(9, 1, 0),), seconds=0.5)
        before = replace(DIFFERS, files=(FileDifference("a", "b"),))

        after = repaired_receipt(before, vnodes)

        assert (after.target_version, after.rows, after.digest, after.seconds) == (12, 100, "abc", 2.5)
        assert [mismatch.vnode for mismatch in after.mismatches] == [9]
