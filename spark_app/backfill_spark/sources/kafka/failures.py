"""Translation of errors from requests to a broker, and from Spark jobs that read a topic."""

from __future__ import annotations

import re

from backfill_core.errors import (
    AwayError,
    BackfillError,
    InvalidSpecError,
    OffsetsExpiredError,
    PermissionDeniedError,
    SourceDamagedError,
    SourceNotFoundError,
    TransientError,
)
from backfill_spark.jvm.errors import causes, is_a
from backfill_spark.sources.kafka.client import FIELD

NO_BROKER = ("TimeoutException", "DisconnectException", "NetworkException", "BootstrapResolutionException")
KAFKA = ("org.apache.kafka.", "org.apache.spark.sql.kafka010.")
PLACE = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)")
LOST = (
    re.compile(r"Starting offset for (?P<at>\S+) was (?P<offset>\d+) but consumer reset to (?P<first>\d+)"),
    re.compile(r"Could not read records in offset \[(?P<offset>\d+), \d+\) for topic partition (?P<at>\S+)"),
)
MALFORMED = re.compile(r"Record at topic \S+ partition (\d+) offset (\d+) has timestamp value")
TIMES_HINT = "Copy the topic into a new one with timestamps in milliseconds, and read the new one."
EXPIRED_HINT = (
    "Start a new job on a new target, and let the topic keep its records for longer (retention.ms, retention.bytes)."
)


def expired(topic: str, partition: str, offset: int, first: int | None) -> OffsetsExpiredError:
    """Return the error for an offset that is gone; `first` is the first available offset, `None` if it is unknown."""
    available = "" if first is None else f"; the first available offset is {first}"
    return OffsetsExpiredError(
        f"offset {offset} of partition {partition} of the topic {topic} is gone{available}.", hint=EXPIRED_HINT
    )


def explain_look(error: Exception, *, topic: str, address: str) -> BackfillError:
    """Return the error of a request to a broker; an unknown error is retryable."""
    message = f"the topic {topic} cannot be read from {address}: {_message(error)}"
    away = any(is_a(error, name) for name in NO_BROKER) or "resolvable bootstrap" in message
    return _permanent(error, topic, address) or (AwayError(message) if away else TransientError(message))


def explain(error: Exception, *, topic: str, address: str) -> BackfillError | None:
    """Return the error of a Spark job; `None` if it does not concern a topic."""
    chain = causes(error)
    if not any(name.startswith(KAFKA) for name, _ in chain):
        return None
    for _, message in chain:
        for sign in LOST:
            match = sign.search(message)
            place = match and PLACE.fullmatch(match["at"])
            if match and place:
                first = match.groupdict().get("first")
                return expired(place[1], place[2], int(match["offset"]), None if first is None else int(first))
    if is_a(error, "OffsetOutOfRangeException"):
        return OffsetsExpiredError(f"records of the topic {topic} are gone: {_message(error)}", hint=EXPIRED_HINT)
    return explain_look(error, topic=topic, address=address)


def _permanent(error: Exception, topic: str, address: str) -> BackfillError | None:
    message = _message(error)
    if is_a(error, "UnknownTopicOrPartitionException") or is_a(error, "UnknownTopicIdException"):
        return SourceNotFoundError(f"the topic {topic} does not exist at {address}.", hint=f"Check {FIELD}.topic.")
    if is_a(error, "AuthorizationException"):
        return PermissionDeniedError(
            f"this user may not read the topic {topic} at {address}: {message}",
            hint="Grant this user the operations Describe and Read on the topic.",
        )
    if is_a(error, "SslAuthenticationException") or is_a(error, "SSLHandshakeException"):
        return InvalidSpecError(
            f"{FIELD}: no trusted connection to {address}: {message}",
            hint="Use a host name that the broker's certificate contains, and put the certificate of its issuer into the Secret "
            "as ssl.truststore.certificates.",
        )
    if is_a(error, "AuthenticationException"):
        return PermissionDeniedError(
            f"{address} does not accept the credentials: {message}",
            hint=f"Check the Secret that {FIELD}.secretRef names, and sasl.mechanism.",
        )
    if is_a(error, "CorruptRecordException") or "Record is corrupt" in message:
        return SourceDamagedError(f"a record of the topic {topic} cannot be read: {message}", hint="Restore the topic.")
    malformed = next((match for _, cause in causes(error) if (match := MALFORMED.search(cause))), None)
    if malformed is not None:
        return SourceDamagedError(
            f"the record at offset {malformed[2]} of partition {malformed[1]} of the topic {topic} has a timestamp that Spark "
            "cannot represent.",
            hint=TIMES_HINT,
        )
    if is_a(error, "IllegalArgumentException") and "JAAS" in message:
        return InvalidSpecError(  # without Kafka's message, which repeats parts of the secret
            f"{FIELD}.secretRef: sasl.jaas.config is not a valid login configuration.",
            hint='Write MODULE required username="…" password="…"; or use the keys username and password.',
        )
    if is_a(error, "ConfigException") and "resolvable bootstrap" not in message:
        return InvalidSpecError(f"{FIELD}.options: {message}", hint="Correct the setting, or the file in the Secret.")
    return None


def _message(error: Exception) -> str:
    """Return the innermost message that is not empty, in one line and without values of settings."""
    lines = [message.strip().splitlines()[0] for _, message in causes(error) if message.strip()]
    return _without_value(lines[-1])[:600].rstrip(".") + "." if lines else f"{type(error).__name__}."


def _without_value(text: str) -> str:
    """Return a message without the value of a setting: Kafka repeats it, and a JAAS configuration contains a password."""
    before, named, value = text.partition("Invalid value ")
    ends = [end for word in (" for configuration", " provided") if (end := value.find(word)) >= 0]
    return f"{before}{named}…{value[min(ends, default=len(value)) :]}" if named else text
