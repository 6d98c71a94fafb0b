"""Spark settings that change the meaning of an expression are the same in every attempt; another value makes another job."""

from backfill_api.spec import session_conf as meaning
from backfill_spark.jvm.session import NEVER_OTHERWISE, settled

ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"


class TestASession:
    """A session sets each of these settings, even if an image or a cluster sets other values."""

    def test_a_session_has_the_settings_of_the_spec_and_fixed_defaults(self) -> None:
        """A default that changes between attempts would change values."""
        conf = settled({ZONE: " Europe/Berlin ", "spark.executor.memory": "2g"})

        assert conf == {**meaning.PINNED, **NEVER_OTHERWISE, ZONE: "Europe/Berlin", "spark.executor.memory": "2g"}

    def test_a_session_overrides_unsafe_settings(self) -> None:
        """A spec must not read the environment in SQL, or skip files silently."""
        conf = settled({"spark.sql.variable.substitute": "true", "spark.sql.files.ignoreMissingFiles": "true"})

        assert conf["spark.sql.variable.substitute"] == "false"
        assert conf["spark.sql.files.ignoreMissingFiles"] == "false"

    def test_only_different_settings_count(self) -> None:
        """A setting that repeats the default must not make another job."""
        assert meaning.given({ZONE: "UTC", ANSI: "True", "spark.sql.shuffle.partitions": "4"}) == {}
        assert meaning.given({ANSI: "false", "spark.sql.legacy.x": "1"}) == {ANSI: "false", "spark.sql.legacy.x": "1"}
