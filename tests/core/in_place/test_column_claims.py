"""Two jobs on one column: the second one is refused until the first one ends."""

import json

import pytest

from backfill_core.errors import TargetTakenError
from backfill_core.in_place.column_claims import ColumnClaims
from backfill_core.job.owner import Claim, check_claim

FIRST, SECOND = ColumnClaims("a" * 12, ("norm",)), ColumnClaims("b" * 12, ("Norm", "low"))


def claim(job_id, *columns):
    """Return the claim of a job that fills columns."""
    return Claim(f"backfill.{job_id}", job_id, shares=True, begins=True, columns=frozenset(columns))


class TestAClaim:
    """A transaction id of the column, with the job in its version."""

    def test_of_another_job_counts_until_it_ends(self):
        """A job that ended needs no release."""
        assert SECOND.is_foreign(FIRST.version(ended=False))
        assert not SECOND.is_foreign(FIRST.version(ended=True))
        assert not FIRST.is_foreign(FIRST.version(ended=False))
        assert not FIRST.is_foreign(None)

    def test_has_one_id_for_each_spelling_of_a_column(self):
        """Delta compares names of columns without case."""
        assert FIRST.ids().keys() < SECOND.ids().keys()
        assert set(SECOND.ids().values()) == {"Norm", "low"}

    def test_is_a_version_of_64_bits_in_a_commit(self):
        """Delta stores a long."""
        [line] = ColumnClaims("f" * 40, ("norm",)).lines(ended=False, now_ms=5)

        txn = json.loads(line)["txn"]
        assert (txn["appId"], txn["lastUpdated"]) == (next(iter(FIRST.ids())), 5)
        assert txn["version"] < 2**63

    def test_refuses_a_job_for_the_same_column_by_name(self):
        """Other columns may be filled at the same time."""
        check_claim(claim("second", "low"), [claim("first", "norm")], path="/t")

        with pytest.raises(TargetTakenError, match="column norm of /t is filled by job 'first'"):
            check_claim(claim("second", "low", "norm"), [claim("first", "norm")], path="/t")
