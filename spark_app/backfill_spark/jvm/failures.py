"""Classifies exceptions of Spark, Delta, Kernel and file systems: one table, by class, condition and message.

The modules `sources/*/failures.py` and `sinks/*/failures.py` decide which side an exception concerns, and so its reason.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

from backfill_core.errors import (
    AwayError,
    BackfillError,
    InvalidSpecError,
    MissingBucketError,
    PermissionDeniedError,
    StagedFilesGoneError,
    StorageFullError,
    TargetSchemaMismatchError,
    TransientError,
    UnexpectedError,
)
from backfill_core.phases.accounting import GONE_HINT
from backfill_spark.jvm.errors import (
    JAVA_ERRORS,
    NO_ACCESS,
    NO_ROOM,
    causes,
    first_line,
    is_no_table,
    row_failure,
    whole_text,
)
from backfill_spark.jvm.log_stores import missing_places, refusals


class Trouble(StrEnum):
    """Kinds of trouble."""

    FULL = "the storage is full"
    TOO_LONG = "the name of a file or folder is too long for the storage"
    DENIED = "access is denied for this user or for all users"
    AWAY = "the storage does not answer"
    REJECTED = "the storage answers, and does not accept the request"
    NO_PLACE = "the bucket or container does not exist"
    NO_TABLE = "there is no table"
    GONE = "a file does not exist"
    CONFLICT = "another commit came first"
    UNSUPPORTED = "the table has a feature or a protocol that this release does not support"
    DAMAGED = "a file exists and cannot be read"
    ENCRYPTED = "a file is encrypted, and its key is missing"
    REFUSED = "Spark or Delta rejects the request"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Sign:
    """Signs of one kind of trouble; one matching field suffices."""

    trouble: Trouble
    classes: tuple[str, ...] = ()
    """Suffixes of the class names of an exception or a cause."""

    conditions: tuple[str, ...] = ()
    """Prefixes of the names of Spark's and Delta's error conditions (`[FAILED_READ_FILE.NO_HINT]`)."""

    message_pattern: re.Pattern[str] | None = None
    """Pattern in the message of an exception or a cause."""


NO_ANSWER = (
    *("SocketTimeoutException", "SocketException", "ConnectException", "ConnectTimeoutException"),
    *("UnknownHostException", "NoRouteToHostException", "SSLException", "NoHttpResponseException"),
)
"""Classes of Java's exceptions if a network or a host does not answer."""

NO_KEY = "ParquetCryptoRuntimeException"
"""Class of Parquet's exception for encrypted data that it cannot read."""

NO_REPLACEMENT = re.compile("Cannot add and remove data in the same transaction when Change Data Feed is enabled")
"""Kernel's message for a commit that replaces files of a table with a change feed."""

DAMAGED_LOG = (
    *("DELTA_TRUNCATED_TRANSACTION_LOG", "DELTA_VERSIONS_NOT_CONTIGUOUS", "DELTA_STATE_RECOVER_ERROR"),
    *("DELTA_MISSING_PART_FILES", "DELTA_LOG_FILE_NOT_FOUND", "DELTA_UNRECOGNIZED_LOGFILE"),
    *("DELTA_UNRECOGNIZED_FILE_ACTION", "DELTA_TXN_LOG_FAILED_INTEGRITY", "DELTA_CHECKPOINT_SNAPSHOT_MISMATCH"),
    *("DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH", "DELTA_METADATA_ABSENT", "DELTA_NO_COMMITS_FOUND"),
    *("DELTA_MISSING_COMMIT_INFO", "DELTA_MISSING_COMMIT_TIMESTAMP", "DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA"),
)
"""Delta's error conditions for a log from which it cannot rebuild a table; most messages name no table."""

SIGNS = (
    Sign(Trouble.FULL, message_pattern=re.compile("|".join(NO_ROOM))),
    Sign(
        Trouble.TOO_LONG,  # before GONE: a FileNotFoundException of Java may contain it too
        classes=("FSLimitException$PathComponentTooLongException",),
        message_pattern=re.compile(
            r"File name too long|ENAMETOOLONG|Pathname too long|KeyTooLong|[Yy]our key is too long|"
            "maximum object length is 1024|resource name length is not within the permissible limits"
        ),
    ),
    Sign(
        Trouble.DENIED,
        message_pattern=re.compile(
            "|".join((*NO_ACCESS, "Read-only file system", "403 Forbidden", r"Status Code: 403", *refusals.SAID))
        ),
    ),
    Sign(
        Trouble.AWAY,
        classes=(
            *NO_ANSWER,
            *("SdkClientException", "AWSServiceIOException", "BlockMissingException"),
            *("AWSServiceThrottledException", "AWSStatus500Exception", "AWSNoResponseException"),
        ),
        message_pattern=re.compile(
            rf"Connection reset|Connection refused|timed out|{refusals.PASSING}|"
            r"Status Code: 50[02-9]|\", 50[0-4], "
        ),
    ),
    # After AWAY: a busy store may answer with status 400.
    Sign(Trouble.REJECTED, message_pattern=re.compile(refusals.REJECTED)),
    Sign(
        Trouble.CONFLICT,
        classes=("ConcurrentWriteException", "ProtocolChangedException", "MetadataChangedException"),
        conditions=(
            "DELTA_CONCURRENT",
            "DELTA_METADATA_CHANGED",
            "DELTA_PROTOCOL_CHANGED",
            "DELTA_SCHEMA_CHANGE_SINCE",
        ),
        message_pattern=re.compile(r"Concurrent\w{0,64}(Exception|Modification)"),
    ),
    Sign(
        Trouble.NO_TABLE,
        classes=("TableNotFoundException", "NoSuchTableException"),
        conditions=(
            *("DELTA_MISSING_DELTA_TABLE", "DELTA_PATH_DOES_NOT_EXIST", "DELTA_TABLE_NOT_FOUND"),
            *("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND"),
        ),
        message_pattern=re.compile(r"_delta_log does not exist"),
    ),
    Sign(
        Trouble.GONE,
        classes=("FileNotFoundException", "NoSuchFileException"),
        conditions=("FAILED_READ_FILE.FILE_NOT_EXIST", "DELTA_FILE_NOT_FOUND", "FILE_NOT_EXIST"),
        message_pattern=re.compile("does not exist"),
    ),
    Sign(
        Trouble.UNSUPPORTED,
        classes=(
            *(
                "UnsupportedProtocolVersionException",
                "UnsupportedTableFeatureException",
                "InvalidProtocolVersionException",
            ),
            "DeltaUnsupportedTableFeatureException",
            "PropertyNamesPlaceError",
            "UserDefinedTypeError",
        ),
        conditions=(
            "DELTA_UNSUPPORTED_FEATURES_FOR",
            "DELTA_INVALID_PROTOCOL_VERSION",
            "DELTA_UNSUPPORTED_FEATURE_STATUS",
        ),
        message_pattern=NO_REPLACEMENT,
    ),
    Sign(
        Trouble.DAMAGED,
        classes=(
            *(
                "EmptyCommitError",
                "InvalidTableException",
                "JsonEOFException",
                "JsonParseException",
                "ChecksumException",
            ),
            *("JsonProcessingException", "MismatchedInputException", "ParquetDecodingException", "TTransportException"),
            *(
                "TProtocolException",
                "ZstdIOException",
                "ZstdException",
                "AEADBadTagException",
                "JSONDecodeError",
                "URISyntaxException",
            ),
        ),
        conditions=(
            *("DELTA_LOG_FILE_MALFORMED", "CANNOT_READ_FILE_FOOTER", "DELTA_FAILED_READ_FILE_FOOTER"),
            *("DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH", "DELTA_DELETION_VECTOR_CHECKSUM_MISMATCH"),
            *("DELTA_DELETION_VECTOR_INVALID_ROW_INDEX", "DELTA_DELETION_VECTOR_SIZE_MISMATCH"),
            *DAMAGED_LOG,
        ),
        message_pattern=re.compile(
            "is not a Parquet file|footer is too large|corrupted file|can not read class org.apache.parquet|"
            "Could not parse JSON|Expected magic number|"
            "Couldn't decode |is null but field isn't nullable|"
            "No protocol found at version|No metadata found at version|Expected a CRC at version|"
            # A line of a commit that is blank, or not an object.
            r"jackson\.databind\.node\.[A-Za-z]+ cannot be cast"
        ),
    ),
    # After DAMAGED: a damaged file does not fit its key either.
    Sign(Trouble.ENCRYPTED, classes=(NO_KEY,)),
    Sign(
        Trouble.REFUSED,
        classes=(
            *(
                "AnalysisException",
                "ParseException",
                "DeltaIllegalArgumentException",
                "DeltaUnsupportedOperationException",
            ),
            *("DeltaTableFeatureException", "ColumnMappingUnsupportedException", "SparkUnsupportedOperationException"),
        ),
    ),
)
"""Signs in the order of the search; more specific signs come first."""

_CONDITION = re.compile(r"\[([A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_NOT_MADE = re.compile(r"(?:Mkdirs failed|Cannot) (?:to )?create (?:path )?([^\n]+)")
"""Hadoop's message for a folder that Java could not create; Java does not report the reason."""

NAME_MAX = 255
"""Maximum length of a name in bytes, in the file systems of Linux and in HDFS."""

REPORT_HINT = "Report it with the driver's log."

_VALUES = re.compile(r"(Could not parse JSON|Couldn't decode|field isn't nullable)\W.*", re.DOTALL)


def trouble_of(error: Exception) -> Trouble:
    """Return the kind of trouble that an exception reports."""
    chain = causes(error)
    text = whole_text(error)
    if missing_places.MISSING.search(text):
        # First, because clients report a missing bucket as a missing file or a denied access.
        return Trouble.NO_PLACE
    if is_no_table(error):
        return Trouble.NO_TABLE
    if chain[-1][0].endswith(NO_ANSWER) or refusals.is_giver_busy(text):
        # Hadoop reports a denied access if the service that provides the keys does not answer.
        return Trouble.AWAY
    if any(is_long(path.partition(" (exists=")[0]) for path in _NOT_MADE.findall(text)):
        return Trouble.TOO_LONG
    conditions = _conditions(error)
    for sign in SIGNS:
        if (
            any(name.endswith(sign.classes) for name, _ in chain if sign.classes)
            or any(condition.startswith(sign.conditions) for condition in conditions if sign.conditions)
            or (sign.message_pattern and sign.message_pattern.search(text))
        ):
            return sign.trouble
    if any("io.delta.kernel" in name and "unsupported" in message.lower() for name, message in chain):
        return Trouble.UNSUPPORTED
    return Trouble.UNKNOWN


def log_conditions(error: Exception) -> frozenset[str]:
    """Return Delta's error conditions for a log from which it cannot rebuild a table; empty for other exceptions."""
    return frozenset(condition for condition in _conditions(error) if condition.startswith(DAMAGED_LOG))


def _conditions(error: Exception) -> tuple[str, ...]:
    return tuple(match[1] for _, message in causes(error) if (match := _CONDITION.match(message.strip())))


def is_long(path: str) -> bool:
    """Return True if a part of a path is longer than most file systems allow."""
    return any(len(part.encode()) > NAME_MAX for part in path.split("/"))


def is_about(error: Exception, path: str) -> bool:
    """Return True if an exception names a table or a file of it. `/lake/orders` is neither `/lake/orders_copy` nor `/old/lake/orders`."""
    plain = re.sub("^file:/+", "/", path).rstrip("/")
    either = "|".join(re.escape(spelling) for spelling in {plain, quote(plain, safe="/:@=")})
    return re.search(rf"(?<![\w.%-])({either})(?![\w.%-])", whole_text(error)) is not None


def is_about_a_file(error: Exception, path: str) -> bool:
    """Return True if a file of a table cannot be read although the storage answers; a retry would read the same bytes."""
    read = any(condition.startswith("FAILED_READ_FILE") for condition in _conditions(error))
    transient = any(name.endswith(("IOException", "OutOfMemoryError")) for name, _ in causes(error))
    return read and not transient and is_about(error, path)


@contextmanager
def while_staging(folder: str) -> Iterator[None]:
    """Translate the error for a missing file below a folder of staged files, so that it is staged again; the target's files are elsewhere.

    Raises:
        StagedFilesGoneError: VACUUM or the next attempt removed the file.
    """
    try:
        yield
    except JAVA_ERRORS as error:
        if trouble_of(error) == Trouble.GONE and is_about(error, folder):
            raise StagedFilesGoneError(f"a staged file is gone: {first_line(error)}.", hint=GONE_HINT) from error
        raise


def describe_error(error: Exception) -> str:
    """Return the message of an exception in one line, without lines of a log, which contain values of rows."""
    return _VALUES.sub(r"\1", first_line(error))


def long_name() -> InvalidSpecError:
    """Return the error for a folder name that is too long; the message omits the name, because it contains a value of a row."""
    return InvalidSpecError(
        "spec.target: the value of a partition is too long for the name of a folder in the target's file system.",
        hint="Partition by a shorter expression, such as substring(name, 1, 40) AS part in spec.transform.select.",
    )


DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError)
"""Exceptions that Python raises for incorrect code; storage, networks and the JVM raise other types."""


def unexplained(error: Exception, *, doing: str) -> BackfillError:
    """Return the error for an exception that neither source nor target explains; only transient troubles are retryable."""
    if isinstance(error, DEFECTS):
        return _defect(error)
    message = f"{doing} failed: {describe_error(error)}"
    match trouble_of(error):
        case Trouble.FULL:
            return StorageFullError(f"{message}.", hint="Free some space; nothing is lost.")
        case Trouble.TOO_LONG:
            return long_name()
        case Trouble.DENIED:
            return PermissionDeniedError(f"{message}.", hint=refusals.hint_of(error, "Grant this user access."))
        case Trouble.NO_PLACE:
            return MissingBucketError(f"{message}.", hint=missing_places.HINT)
        case Trouble.AWAY:
            return AwayError(message)
        case Trouble.REJECTED:
            return TransientError(message, hint=refusals.REJECTED_HINT)
        case Trouble.REFUSED:
            return TargetSchemaMismatchError(
                f"{message}.", hint="Compare the columns of source and target with spec.transform and the key."
            )
        case _ if (failure := row_failure(error)) is not None:
            return UnexpectedError(
                f"an expression that backfill adds to a query fails: {failure.condition} (SQLSTATE {failure.state}).",
                hint=REPORT_HINT,
            )
        case _:
            return TransientError(message)


def _defect(error: Exception) -> UnexpectedError:
    """Return the error for an exception of backfill's code, and log its traceback."""
    logging.getLogger(__name__).error("backfill itself failed", exc_info=error)
    frames = [(frame.f_globals.get("__name__", ""), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    ours = [f"{name}, line {line}" for name, line in frames if name.startswith("backfill")]
    place = ours[-1] if ours else "backfill"
    return UnexpectedError(f"{place} raised {type(error).__name__}: {describe_error(error)}.", hint=REPORT_HINT)
