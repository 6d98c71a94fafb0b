"""Bad records in a state. tests/simulation/test_laws.py checks the law that they are in their own table exactly once."""

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
    """The state finds bad records again after a crash, without a list of files."""

    def test_a_commit_announces_bad_records_by_their_work(self):
        """Files of that work are in a folder named for its attempt and number."""
        quarantine = Quarantine(10).after((StagedFile("good", 10, 7), *BAD), TXN)

        assert quarantine == Quarantine(15, AnnouncedRecords(TXN, (4, 5), 5))
        assert quarantine.announced.attempt == 3

    def test_a_commit_counts_the_bad_records_of_earlier_commits(self):
        """A commit is confirmed when its bad records are durable, so the next commit need not announce them."""
        quarantine = Quarantine().after(BAD, TXN).after((StagedFile("good", 10, 7),), TXN + 1)

        assert quarantine == Quarantine(5)


class TestTheStateKeepsThem:
    """A state without bad records is the same as in earlier releases."""

    def test_bad_records_survive_a_round_trip(self):
        """The next attempt completes the announced records."""
        state = JobState("a/b", "h", 3, 17, "Snapshot", quarantine=Quarantine().after(BAD, TXN))

        assert JobState.decode(state.encode()) == state

    def test_a_state_without_bad_records_has_no_such_field(self):
        """An earlier release reads the state of a job without bad records."""
        assert "quarantine" not in json.loads(JobState("a/b", "h", 1, 1, "Snapshot").encode())

    def test_a_malformed_announcement_is_refused_by_field_name(self):
        """Half of an announcement would lose records."""
        text = JobState("a/b", "h", 3, 17, "Snapshot", quarantine=Quarantine().after(BAD, TXN)).encode()

        with pytest.raises(StateMismatchError, match=r"quarantine\.announced\.works"):
            JobState.decode(text.replace('"works":[4,5]', '"works":"all"'))
