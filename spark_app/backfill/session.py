"""The embedded session, for those who keep it over several calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_session(
    settings: DriverSettings | None = None, *, app_name: str = "backfill", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a local session that has all that a job needs; the caller stops it.

    Args:
        settings: Cores, memory, Java and jars; `None` for those of the environment.
        app_name: Shown by Spark.
        conf: Further settings of Spark.

    Raises:
        SessionUnfitError: a Spark session runs in this process.
        JavaMissingError: there is no Java, or an unsuitable one.
        JarsMissingError: Delta's jars are not there and cannot be fetched.
    """
    from backfill_spark.jvm import session
    from backfill_spark.jvm.callers_session import check_no_session

    check_no_session()
    given = settings or DriverSettings.from_environ()
    return session.open_session(
        app_name=app_name, cores=given.cores, memory=given.memory, jars_dir=given.jars_dir, java_home=given.java_home,
        conf=conf,
    )  # fmt: skip
