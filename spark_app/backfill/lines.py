"""A run as lines: for logs, and as JSON for programs."""

from backfill_spark.driver.lines import GOODBYE_S, Lines, clock, json_line, progress_document, progress_in

__all__ = ["GOODBYE_S", "Lines", "clock", "json_line", "progress_document", "progress_in"]
