"""A job is built from a file, a document or values; each form gives the same job, and the same error."""

import pytest
from support.tables.jobs import document, write_yaml

from backfill import Backfill, BackfillError
from backfill.errors import InvalidSpecError
from backfill_api.load import load_backfill


class TestTheSameJob:
    """A job resumes from the state of each of the other forms."""

    def test_a_file_a_document_and_values_give_the_same_job(self, tmp_path):
        """The hash of the immutable fields is equal."""
        spec = document("/s", "/t", jobId="orders", verify="Final")["spec"]
        jobs = [
            Backfill.load(write_yaml(tmp_path / "job.yaml", "/s", "/t", jobId="orders", verify="Final")),
            Backfill.of(document("/s", "/t", jobId="orders", verify="Final")),
            Backfill(job_id="orders", source=spec["source"], target=spec["target"], verify="Final"),
            Backfill(
                job_id="orders", source={"delta": {"path": "/s", "key": ["id"]}}, target={"delta": {"path": "/t"}},
                verify="Final",
            ),
        ]  # fmt: skip

        assert len({load_backfill(job.document).spec_hash for job in jobs}) == 1
        assert {job.job_id for job in jobs} == {"orders"}

    def test_every_keyword_is_a_field_of_the_spec(self):
        """A different keyword would be a second language."""
        job = Backfill(
            job_id="orders", source={"delta": {"path": "/s", "key": ["id"]}}, target={"delta": {"path": "/t"}},
            transform={"select": ["id"], "where": "id > 0"}, strategy={"snapshot": {"vnodes": 16}},
            barrier={"intervalMs": 500}, throttle={"rowsPerSecond": 7}, pause={"scope": "All"}, desired_state="Paused",
            after="Follow", verify="None", spark={"conf": {"spark.sql.shuffle.partitions": "2"}},
        )  # fmt: skip

        spec = job.document["spec"]
        assert (spec["barrier"], spec["throttle"], spec["pause"]) == (
            {"intervalMs": 500}, {"rowsPerSecond": 7}, {"scope": "All"},
        )  # fmt: skip
        assert (spec["desiredState"], spec["after"], spec["strategy"]["type"]) == ("Paused", "Follow", "Snapshot")

    def test_the_document_builds_the_job_again(self, tmp_path):
        """A job can be stored, changed and loaded."""
        job = Backfill.load(write_yaml(tmp_path / "job.yaml", "/s", "/t"))

        assert Backfill.of(job.document).document == job.document


class TestRefusals:
    """All forms raise the same class of error."""

    @pytest.mark.parametrize(
        "build",
        [
            lambda: Backfill(job_id="o", source={"delta": {"path": "/s"}}, target={"delta": {"pfad": "/t"}}),
            lambda: Backfill.of("spec: ["),
            lambda: Backfill.of({"kind": "Backfill"}),
        ],
        ids=["values", "text", "document"],
    )
    def test_a_wrong_job_is_an_invalid_spec(self, build):
        """It is also a `BackfillError`, so one `except` is enough."""
        with pytest.raises(InvalidSpecError) as refused:
            build()

        assert isinstance(refused.value, BackfillError)

    def test_the_message_names_the_field_and_the_nearest_name(self):
        """The fields are those of the YAML, and so is the message."""
        with pytest.raises(InvalidSpecError, match=r"spec.throttle.rowsPerSec.*rowsPerSecond"):
            Backfill(
                job_id="o", source={"delta": {"path": "/s", "key": ["id"]}}, target={"delta": {"path": "/t"}},
                throttle={"rowsPerSec": 1},
            )  # fmt: skip

    def test_a_binary_file_is_refused(self, tmp_path):
        """The decoder's own error would name no file."""
        file = tmp_path / "job.yaml"
        file.write_bytes(b"\xff\xfe")

        with pytest.raises(InvalidSpecError, match="is not text in UTF-8"):
            Backfill.load(file)
