"""`doctor` judges stores by what jobs report: a commit proves that a store answers its drivers."""

from datetime import datetime

import pytest
from support.plugin.objects import condition, running, stored

from backfill_kubectl.decisions.installation import Unreadable
from backfill_kubectl.decisions.stores import check_stores, store_use

NOW = datetime.fromisoformat("2026-11-26T22:00:00Z")
COMMITTED = {"lastCommitTime": "2026-11-26T21:59:57Z"}
OLD = {"lastCommitTime": "2026-11-26T21:50:00Z"}


def spec(target="s3a://there/orders", source="s3a://here/orders"):
    return {
        "target": {"type": "Delta", "delta": {"path": target} if "/" in target else {"table": target}},
        "source": {"type": "Delta", "delta": {"path": source, "key": ["id"]}},
    }


def use(name="orders", status=None, **fields):
    return store_use(stored(name, spec=spec(**fields), status=status), NOW)


def ended(reason, **status):
    """Return the status of a job whose last attempt ended."""
    return {"phase": "Retrying", "history": [{"number": 3, "reason": reason, "exitCode": 61}], **status}


class TestAStore:
    """One line for each store of a target."""

    def test_recent_commit_proves_that_the_store_answers(self):
        """The newest of all jobs counts."""
        uses = [
            use(status=running(progress=COMMITTED)),
            use("items", running(progress=OLD | {"percent": 1}) | {"conditions": [condition("Paused")]}),
        ]

        [check] = check_stores(uses)

        assert (check.verdict, check.title) == ("ok", "store s3a://there")
        assert check.detail == "newest commit 3 s ago, by shop/orders; used by 2 drivers"

    @pytest.mark.parametrize(
        ("status", "problem"),
        [
            (running(progress=OLD), "no commit for 10 min"),
            (running(progress=COMMITTED) | {"conditions": [condition("DriverReady", "False", "CommitStalled")]}, "a commit has no answer"),
            (ended("Transient"), "attempt 3 ended with Transient"),
            (ended("PermissionDenied", phase="Failed"), "attempt 3 ended with PermissionDenied"),
        ],
    )  # fmt: skip
    def test_problem_of_a_job_is_a_warning_with_the_way_on(self, status, problem):
        """The cause may be the store of the source, so that one is named, too."""
        [check] = check_stores([use(status=status), use("items", running(progress=COMMITTED))])

        assert check.verdict == "warning"
        assert check.detail == f"shop/orders (source s3a://here): {problem}"
        assert "kubectl backfill logs shop/orders" in check.remedy

    @pytest.mark.parametrize("status", [{}, running(), {"phase": "Suspended"}, ended("KeyNotUnique", phase="Failed")])
    def test_without_a_commit_the_store_is_unknown(self, status):
        """A connection from the user's machine would prove nothing."""
        [check] = check_stores([use(status=status)])

        assert check.verdict == "unknown"
        assert "nothing shows whether it answers" in check.detail

    def test_tables_by_name_are_those_of_the_metastore(self):
        """A driver finds them there before it commits."""
        checks = check_stores([use(target="db.orders", status=running(progress=COMMITTED)), use(target="/data/b")])

        assert [check.title for check in checks] == ["local paths", "metastore"]

    def test_ended_jobs_and_odd_specs_show_nothing(self):
        """Their stores may be gone."""
        assert use(status={"phase": "Succeeded"}) is None
        assert all(
            store_use(stored(spec={"target": target}), NOW) is None
            for target in (
                None,
                7,
                {},
                {"delta": 1},
                {"delta": {"path": 7}},
                {"delta": {"path": "s3a://"}},
                {"delta": {"path": "https://x/y"}},
            )
        )

    def test_jobs_that_cannot_be_read_are_unknown(self):
        """The page has still its other lines."""
        assert [check.verdict for check in check_stores(Unreadable("you may not list"))] == ["unknown"]
