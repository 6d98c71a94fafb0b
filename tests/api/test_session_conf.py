"""Spark settings that change what an expression means are the same in every attempt, or it is another job."""

from backfill_api.spec import session_conf as meaning
from backfill_spark.jvm.session import NEVER_OTHERWISE, settled

ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"


class TestASession:
    """A session has each such setting, also when an image or a cluster sets others."""

    def test_has_what_the_spec_gives_and_the_rest_as_ever(self) -> None:
        """A default that changes between attempts would change values."""
        conf = settled({ZONE: " Europe/Berlin ", "spark.executor.memory": "2g"})

        assert conf == {**meaning.PINNED, **NEVER_OTHERWISE, ZONE: "Europe/Berlin", "spark.executor.memory": "2g"}

    def test_has_some_never_otherwise(self) -> None:
        """A spec must not read the environment in SQL, or skip files silently."""
        conf = settled({"spark.sql.variable.substitute": "true", "spark.sql.files.ignoreMissingFiles": "true"})

        assert conf["spark.sql.variable.substitute"] == "false"
        assert conf["spark.sql.files.ignoreMissingFiles"] == "false"

    def test_what_is_given_is_what_differs(self) -> None:
        """A setting that repeats the default must not make another job."""
        assert meaning.given({ZONE: "UTC", ANSI: "True", "spark.sql.shuffle.partitions": "4"}) == {}
        assert meaning.given({ANSI: "false", "spark.sql.legacy.x": "1"}) == {ANSI: "false", "spark.sql.legacy.x": "1"}
