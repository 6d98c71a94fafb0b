"""What a spec says of records that cannot be parsed, and which write modes a source with offsets has."""

import pytest
from support.tables.jobs import document

from backfill_api.load import SpecError, load_backfill

KAFKA = {"bootstrapServers": "broker:9092", "topic": "orders"}


def loaded(source=None, **target):
    """Load a job from a topic into a table."""
    given = document("/s", "/t")
    given["spec"]["source"] = {"type": "Kafka", "kafka": KAFKA | (source or {})}
    given["spec"]["target"] = {"type": "Delta", "delta": {"path": "/t"} | target}
    given["spec"]["strategy"] = {"type": "SourceSplits"}
    return load_backfill(given)


def refusal(*given, **target):
    """Return the message of a refusal."""
    with pytest.raises(SpecError) as refused:
        loaded(*given, **target)
    return " ".join(map(str, refused.value.errors))


class TestQuarantine:
    """A user says where bad records go."""

    def test_needs_a_place(self):
        """One of ours would be found by nothing."""
        said = refusal({"onBadRecord": "Quarantine"})

        assert "spec.source.kafka.quarantinePath" in said
        assert "is required, because onBadRecord is Quarantine" in said

    def test_may_be_switched_on_by_the_next_attempt(self):
        """A job that ended at a bad record goes on."""
        failing, keeping = loaded(), loaded({"onBadRecord": "Quarantine", "quarantinePath": "/bad"})

        assert failing.spec_hash == keeping.spec_hash
        assert failing.spec.source.params.on_bad_record == "Fail"

    def test_holds_no_password(self):
        """A path is shown in status and logs."""
        said = refusal({"quarantinePath": "s3a://key:secret@bucket/bad"})

        assert "spec.source.kafka.quarantinePath" in said
        assert "secret" not in said.replace("from a Secret", "")


class TestATargetOfATopic:
    """It is appended to without a word in the spec."""

    def test_is_appended_to(self):
        """The write mode of tables needs a key, which a topic need not have."""
        assert loaded().spec.write_mode == "Append"
        assert loaded(existingRows="Keep").spec.write_mode == "Append"

    def test_is_the_same_job_when_it_says_so(self):
        """The states of before the default name the mode."""
        assert loaded().spec_hash == loaded(writeMode="Append").spec_hash

    def test_holds_one_row_a_key_where_a_user_says_so(self):
        """The key is one of the target: what a record has is bytes."""
        made = loaded(writeMode="Upsert", key=["id"])

        assert (made.spec.write_mode, made.spec.key) == ("Upsert", ("id",))
        assert made.spec_hash != loaded().spec_hash

    def test_needs_a_key_for_that(self):
        """The message names the field."""
        said = refusal(None, writeMode="Upsert")

        assert "spec.source.kafka.key: is required, because the target's writeMode is Upsert" in said

    def test_is_no_changelog(self):
        """Refused when the spec is read, not after seconds of Spark; with the reason, and with what to write."""
        said = refusal(None, writeMode="Changelog")

        assert "spec.target.delta.writeMode" in said
        assert "no row changes" in said
        assert "use Upsert or Append" in said
