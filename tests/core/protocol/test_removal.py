"""A target is removed only if its job created it, no other writer changed it, and the source still has the rows."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables.jobs import job

from backfill_core.command_errors import NotDroppableError
from backfill_core.errors import ForeignCommit
from backfill_core.protocol.removal import TargetEvidence, check_droppable

OWN = TargetEvidence(
    "/lake/orders_copy", 0, (), (),
    ("_delta_log", "backfill-1a2b", "day=2026-01-01", "part-00000-1.snappy.parquet", "_change_data", "deletion_vector_7.bin", ".x.crc"),
)  # fmt: skip
WRITE = ForeignCommit(7, "WRITE", "delta-rs")


def reason(spec=None, evidence=OWN, source="Open", *, created=True):
    """Return the reason of a refusal; empty if the target may be removed."""
    try:
        spec = spec or job("/s", "/t").spec
        check_droppable(spec, evidence, source, created=created, staging="backfill-1a2b")
    except NotDroppableError as refused:
        return str(refused) if refused.hint else "no hint"
    return ""


class TestARemoval:
    """Every doubt keeps the table."""

    @pytest.mark.parametrize("source", ["Open", "Unknown"])
    def test_a_table_that_only_its_job_wrote_may_be_removed(self, source):
        """Its rows are in the source."""
        assert reason(source=source) == ""

    @pytest.mark.parametrize(
        ("facts", "words"),
        [
            ({"oldest": 12}, "its log begins at version 12"),
            ({"oldest": None}, "its log has no commit"),
            ({"others": (WRITE,) * 4}, "other writers wrote to it: version 7 (WRITE by delta-rs), version 7"),
            ({"other_jobs": ("backfill.77",)}, "the state of other jobs: backfill.77"),
            ({"entries": ("_delta_log", "notes.txt", "v2")}, "not a part of the table: notes.txt, v2"),
            ({"append_only": True}, "delta.appendOnly"),
        ],
    )
    def test_each_doubt_about_the_table_keeps_it(self, facts, words):
        """The message names the fact."""
        refused = reason(evidence=replace(OWN, **facts))

        assert refused.startswith("/lake/orders_copy stays: ")
        assert words in refused

    def test_a_table_that_existed_before_the_job_stays(self):
        """It belongs to its creator, also if it was empty. States of earlier releases do not record it."""
        assert "does not record that the job created the table" in reason(created=False)

    @pytest.mark.parametrize(
        ("spec", "words"),
        [
            ({"target": {"existingRows": "Keep", "writeMode": "Append"}}, "spec.target.delta.existingRows is Keep"),
            ({"target": {"scope": "id = 1", "publish": "WhenComplete"}}, "spec.target.delta.scope is set"),
        ],
    )
    def test_a_target_that_may_have_other_rows_stays(self, spec, words):
        """Only a part of it is from the job."""
        assert words in reason(job("/s", "/t", **spec).spec)

    @pytest.mark.parametrize(("source", "words"), [("Missing", "the only copy"), ("Fenced", "fenced by this job")])
    def test_a_target_that_may_be_in_use_stays(self, source, words):
        """After a switch-over by hand the rows of the source are old, or gone."""
        assert words in reason(source=source)

    @given(
        st.lists(
            st.sampled_from(
                [
                    {"oldest": 3},
                    {"append_only": True},
                    {"others": (WRITE,)},
                    {"other_jobs": ("d",)},
                    {"entries": ("a.csv",)},
                ]
            ),
            min_size=1,
        )
    )
    def test_no_combination_of_doubts_removes_a_table(self, doubts):
        """One fact never hides another one."""
        evidence = OWN
        for doubt in doubts:
            evidence = replace(evidence, **doubt)

        assert reason(evidence=evidence)
