"""The fields by which people observe Spark, and the volume of its temporary files, are checked when the spec is read."""

import pytest
import yaml
from support.operators.observations import TABLES

from backfill_api.load import SpecError, load_backfill


def fault(**fields):
    """Return the message against a spec with these fields."""
    document = {"apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "orders"}}
    with pytest.raises(SpecError) as refused:
        load_backfill(yaml.safe_dump(document | {"spec": TABLES | fields}))
    return str(refused.value)


class TestAnEventLog:
    """Its folder is read as a table's folder is."""

    @pytest.mark.parametrize(
        ("path", "part"),
        [
            ("s3a://key:secret@bucket/events", "contains a user or a password"),
            ("s3://bucket/events", "write s3a://bucket/events"),
            ("s3a://", "names no bucket"),
        ],
    )
    def test_path_that_is_no_place_is_refused_with_its_field(self, path, part):
        """A password in it is not repeated."""
        message = fault(spark={"eventLog": {"path": path}})

        assert "spec.spark.eventLog.path: " in message
        assert part in message
        assert "secret" not in message

    @pytest.mark.parametrize("size", [9, 1025, "128m"])
    def test_file_size_has_the_bounds_of_spark(self, size):
        """Spark does not start with a file below 10 MiB."""
        assert "spec.spark.eventLog.maxFileMebibytes" in fault(
            spark={"eventLog": {"path": "/lake/events", "maxFileMebibytes": size}}
        )


class TestALogLevel:
    @pytest.mark.parametrize("level", ["error", "VERBOSE", "ALL", "OFF", "INFO -XX:OnError=sh"])
    def test_unknown_level_is_refused(self, level):
        """It becomes a part of Java's options."""
        assert "spec.spark.logLevel" in fault(spark={"logLevel": level})


class TestScratch:
    @pytest.mark.parametrize(
        ("scratch", "message"),
        [
            ({"storageClassName": "fast"}, "spec.scratch.storageClassName: has no size"),
            ({"claimName": "scratch", "size": "1Gi"}, "spec.scratch.claimName: is an existing claim"),
            (
                {"claimName": "a", "size": "1Gi", "storageClassName": "b"},
                "spec.scratch.claimName: is an existing claim",
            ),
            ({"size": "20 GB"}, "spec.scratch.size: "),
            ({"size": "0Gi"}, "spec.scratch.size: "),
            ({"size": "20"}, "spec.scratch.size: "),
        ],
    )
    def test_volume_without_a_meaning_is_refused(self, scratch, message):
        """A new volume needs a size, and an existing claim has one."""
        assert message in fault(scratch=scratch)
