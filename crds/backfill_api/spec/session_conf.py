"""Spark settings that change the result of an expression: time zone, ANSI rules, case of names.

A job runs many queries in several attempts, and all must compute equal results. So every session has all of these settings,
with the values here or those of the spec. A value in the spec is part of the job, like the transform.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PINNED: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.charAsVarchar": "false",
    "spark.sql.collation.allowInMapKeys": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.function.eltOutputAsString": "false",
    "spark.sql.json.enableExactStringParsing": "true",
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.jsonGenerator.writeNullIfWithDefaultValue": "true",
    "spark.sql.lateralColumnAlias.enableImplicitResolution": "true",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.variant.allowDuplicateKeys": "false",
}
"""Defaults: those of Spark, and UTC."""

PREFIXES: Final = ("spark.sql.ansi.", "spark.sql.legacy.", "spark.sql.parser.", "spark.sql.function.")
"""Families of such settings. Those that are not listed above keep Spark's own value."""


def given(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of this kind whose value in the spec differs from the default; empty for almost every spec."""
    return {
        name: value.strip()
        for name, value in conf.items()
        if (name in PINNED or name.startswith(PREFIXES)) and value.strip().lower() != PINNED.get(name, "").lower()
    }


def settings(conf: Mapping[str, str]) -> dict[str, str]:
    """Return every setting of this kind for the sessions of a spec."""
    return {**PINNED, **given(conf)}
