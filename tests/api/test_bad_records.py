"""Fields of a spec for records that cannot be parsed, and the write modes of a source with offsets."""

import pytest
from support.tables.jobs import document

from backfill_api.load import SpecError, load_backfill

KAFKA = {"bootstrapServers": "broker:9092", "topic": "orders"}


def loaded(source=None, **target):
    """Load a job from a topic into a table."""
    spec_document = document("/s", "/t")
    spec_document["spec"]["source"] = {"type": "Kafka", "kafka": KAFKA | (source or {})}
    spec_document["spec"]["target"] = {"type": "Delta", "delta": {"path": "/t"} | target}
    spec_document["spec"]["strategy"] = {"type": "SourceSplits"}
    return load_backfill(spec_document)


def refusal(*source, **target):
    """Return the message of a rejected spec."""
    with pytest.raises(SpecError) as refused:
        loaded(*source, **target)
    return " ".join(map(str, refused.value.errors))


class TestQuarantine:
    """A user chooses the path for bad records."""

    def test_quarantine_needs_a_path(self):
        """Users would not find a default path."""
        message = refusal({"onBadRecord": "Quarantine"})

        assert "spec.source.kafka.quarantinePath" in message
        assert "is required, because onBadRecord is Quarantine" in message

    def test_quarantine_may_be_switched_on_by_the_next_attempt(self):
        """A job that ended at a bad record resumes."""
        failing, keeping = loaded(), loaded({"onBadRecord": "Quarantine", "quarantinePath": "/bad"})

        assert failing.spec_hash == keeping.spec_hash
        assert failing.spec.source.params.on_bad_record == "Fail"

    def test_the_path_of_a_quarantine_contains_no_password(self):
        """Status and logs show the path."""
        message = refusal({"quarantinePath": "s3a://key:secret@bucket/bad"})

        assert "spec.source.kafka.quarantinePath" in message
        assert "secret" not in message.replace("from a Secret", "")


class TestATargetOfATopic:
    """The default write mode of a topic's target is Append."""

    def test_a_topic_is_appended_by_default(self):
        """The default mode of a table needs a key, and a topic may have none."""
        assert loaded().spec.write_mode == "Append"
        assert loaded(existingRows="Keep").spec.write_mode == "Append"

    def test_an_explicit_append_is_the_same_job(self):
        """States that are older than the default contain the mode."""
        assert loaded().spec_hash == loaded(writeMode="Append").spec_hash

    def test_a_topic_may_be_upserted_by_a_key(self):
        """The key consists of columns of the target, because a record's key is bytes."""
        upserting = loaded(writeMode="Upsert", key=["id"])

        assert (upserting.spec.write_mode, upserting.spec.key) == ("Upsert", ("id",))
        assert upserting.spec_hash != loaded().spec_hash

    def test_an_upsert_needs_a_key(self):
        """The message names the field."""
        message = refusal(None, writeMode="Upsert")

        assert "spec.source.kafka.key: is required, because the target's writeMode is Upsert" in message

    def test_a_changelog_of_a_topic_is_refused(self):
        """The spec is rejected before Spark starts, with the reason and the allowed modes."""
        message = refusal(None, writeMode="Changelog")

        assert "spec.target.delta.writeMode" in message
        assert "no row changes" in message
        assert "use Upsert or Append" in message
