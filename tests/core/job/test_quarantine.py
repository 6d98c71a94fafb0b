"""What a state says of bad records; that they are in their own table exactly once is a law (tests/simulation/test_laws.py)."""

import json

import pytest

from backfill_core.errors import StateMismatchError
from backfill_core.job.state import JobState
from backfill_core.protocol.epochs import txn_version
from backfill_core.protocol.quarantine import AnnouncedRecords, Quarantine
from backfill_core.protocol.work import StagedFile

TXN = txn_version(3, 17)
BAD = (StagedFile("bad/1", 10, 2, quarantined_by=5), StagedFile("bad/2", 10, 3, quarantined_by=4))


class TestACommitAnnouncesItsBadRecords:
    """Its state finds them again after a crash, without a list of files."""

    def test_by_the_work_that_staged_them(self):
        """Files of that work are in a folder of its attempt and number."""
        found = Quarantine(10).after((StagedFile("good", 10, 7), *BAD), TXN)

        assert found == Quarantine(15, AnnouncedRecords(TXN, (4, 5), 5))
        assert found.announced.attempt == 3

    def test_and_counts_those_of_earlier_commits(self):
        """A commit is answered when its bad records are durable: the next one needs not announce them."""
        found = Quarantine().after(BAD, TXN).after((StagedFile("good", 10, 7),), TXN + 1)

        assert found == Quarantine(5)


class TestTheStateKeepsThem:
    """A state without bad records is as it was in earlier releases."""

    def test_they_come_back(self):
        """The next attempt completes what is announced."""
        state = JobState("a/b", "h", 3, 17, "Snapshot", quarantine=Quarantine().after(BAD, TXN))

        assert JobState.decode(state.encode()) == state

    def test_none_leave_no_trace(self):
        """An earlier release reads the state of a job without them."""
        assert "quarantine" not in json.loads(JobState("a/b", "h", 1, 1, "Snapshot").encode())

    def test_what_does_not_fit_is_refused_by_its_name(self):
        """Half of an announcement would lose records."""
        text = JobState("a/b", "h", 3, 17, "Snapshot", quarantine=Quarantine().after(BAD, TXN)).encode()

        with pytest.raises(StateMismatchError, match=r"quarantine\.announced\.works"):
            JobState.decode(text.replace('"works":[4,5]', '"works":"all"'))
