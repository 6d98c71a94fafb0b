"""Ownership of a target: one job fills it, or several jobs whose specs all allow sharing."""

import json
from dataclasses import replace

import pytest

from backfill_core.errors import TargetTakenError
from backfill_core.job.owner import OWNER_DOMAIN, Claim, check_claim, claimed, claims_in

OURS = Claim("backfill.a", "ns/a", shares=False, begins=True)
OTHER = Claim("backfill.b", "ns/b", shares=False)


def check(ours, *others):
    check_claim(ours, others, path="/lake/t")


class TestATargetHasOneOwner:
    """Two jobs that both saw an empty table would each copy all rows into it."""

    @pytest.mark.parametrize("ours", [OURS, replace(OURS, shares=True), replace(OURS, begins=False)])
    def test_an_owner_accepts_no_other_job(self, ours):
        """The error names both jobs, so that the user can change one of them."""
        with pytest.raises(TargetTakenError, match="'ns/b', which is not finished; this is job 'ns/a'"):
            check(ours, OTHER)

    def test_a_job_that_does_not_share_joins_no_other(self):
        """Sharing needs the consent of both jobs."""
        for shares in (True, None):
            with pytest.raises(TargetTakenError):
                check(OURS, replace(OTHER, shares=shares))

    def test_jobs_that_all_share_fill_one_target_together(self):
        """Several sources may feed one target when every spec says so."""
        check(replace(OURS, shares=True), replace(OTHER, shares=True))

    def test_a_finished_job_allows_a_new_one(self):
        """A new job may add to the rows of an old one."""
        check(OURS, replace(OTHER, finished=True))

    def test_a_job_of_an_earlier_release_continues(self):
        """Its target stores no owner, even where two jobs add to one target on purpose."""
        check(replace(OURS, begins=False))
        check(replace(OURS, begins=False), replace(OTHER, shares=None))
        check(replace(OURS, shares=True), replace(OTHER, shares=None))

    def test_a_job_accepts_its_own_claim(self):
        """A restart must not be rejected because of the job's own earlier attempt."""
        check(replace(OURS, begins=False), replace(OURS, begins=False))


class TestTheStoredClaim:
    """The first commit writes the claim, so that Delta lets only one of two jobs pass."""

    def test_a_first_commit_always_writes_the_claim(self):
        """Two first commits then touch the same entry, and Delta rejects the second."""
        text = claimed(OURS, (), None)

        assert claimed(OURS, (OURS,), text) == text

    def test_a_later_commit_writes_only_a_missing_claim(self):
        """Each write conflicts with other jobs, so it is made once."""
        later = replace(OURS, begins=False)
        text = claimed(later, (later,), None)

        assert claimed(later, (later,), text) is None

    def test_stored_claims_are_read_back_with_finished_jobs_unclaimed(self):
        """The stored claim must be the same after a round trip."""
        ours = replace(OURS, shares=True)
        done = Claim("backfill.c", "ns/c", shares=True, finished=True)
        text = claimed(ours, (replace(OTHER, shares=True), done), None)
        states = {
            "backfill.a": json.dumps({"jobId": "ns/a", "finished": False}),
            "backfill.b": json.dumps({"jobId": "ns/b", "finished": False}),
            "backfill.c": json.dumps({"jobId": "ns/c", "finished": True}),
        }

        claims = claims_in({OWNER_DOMAIN: text, "delta.clustering": "{}", **states})

        assert claims == (replace(ours, begins=False), replace(OTHER, shares=True), replace(done, shares=None))

    @pytest.mark.parametrize("text", ["", "fence", "[]", '{"jobs":{}}', "[" * 100_000], ids=lambda text: text[:9])
    def test_what_cannot_be_read_is_a_claim_too(self, text):
        """Damage must not open the target for a second owner."""
        assert claims_in({"backfill.b": text, OWNER_DOMAIN: text}) == (Claim("backfill.b", "backfill.b", shares=None),)
