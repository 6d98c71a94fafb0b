"""Spark settings by which people observe a job: log level, event log and web UI."""

from __future__ import annotations

from backfill_operator.manifests.attempt import Launch
from backfill_operator.manifests.names import UI_PORT


def has_ui(launch: Launch) -> bool:
    """Return whether the driver serves Spark's web UI; a plan ends too soon for it."""
    return launch.spec.spark.ui and launch.kind == "Run"


def observing_settings(launch: Launch) -> dict[str, str]:
    """Return the settings of the spec's fields; empty for their defaults, which every session has.

    A driver applies them with the spec's conf: its own defaults take precedence over the properties of the file.
    """
    spark = launch.spec.spark
    settings: dict[str, str] = {}
    if spark.log_level != "ERROR":
        settings["spark.log.level"] = spark.log_level
    if has_ui(launch):
        settings |= {
            "spark.ui.enabled": "true",
            "spark.ui.port": str(UI_PORT),
            # A viewer must not end work: its kill links act without a login.
            "spark.ui.killEnabled": "false",
            # Each view would stop the JVM for a full garbage collection.
            "spark.ui.heapHistogramEnabled": "false",
        }
    if spark.event_log is not None and launch.kind == "Run":
        settings |= {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": spark.event_log.path,
            "spark.eventLog.compress": "true",
            "spark.eventLog.rolling.enabled": "true",
            "spark.eventLog.rolling.maxFileSize": f"{spark.event_log.max_file_mebibytes}m",
        }
    return settings
