"""Errors of asking a broker, and of Spark jobs that read a topic."""

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
TIMES_HINT = "Copy the topic to another one with times in milliseconds, and read that."
EXPIRED_HINT = (
    "Start a new job on a new target, and let the topic keep its records for longer (retention.ms, retention.bytes)."
)


def expired(topic: str, partition: str, wanted: int, first: int | None) -> OffsetsExpiredError:
    """Return why a range cannot be read any more; `first`: the first offset that is there, None: not known."""
    there = "" if first is None else f"; the first one that is there is {first}"
    return OffsetsExpiredError(
        f"offset {wanted} of partition {partition} of the topic {topic} is gone{there}.", hint=EXPIRED_HINT
    )


def explain_look(error: Exception, *, topic: str, address: str) -> BackfillError:
    """Return the error of asking a broker; what is unknown may pass."""
    words = f"the topic {topic} cannot be read from {address}: {_words(error)}"
    away = any(is_a(error, name) for name in NO_BROKER) or "resolvable bootstrap" in words
    return _known(error, topic, address) or (AwayError(words) if away else TransientError(words))


def explain(error: Exception, *, topic: str, address: str) -> BackfillError | None:
    """Return the failure of a Spark job by its name, or None when it is not about a topic."""
    said = causes(error)
    if not any(name.startswith(KAFKA) for name, _ in said):
        return None
    for _, message in said:
        for sign in LOST:
            found = sign.search(message)
            place = found and PLACE.fullmatch(found["at"])
            if found and place:
                first = found.groupdict().get("first")
                return expired(place[1], place[2], int(found["offset"]), None if first is None else int(first))
    if is_a(error, "OffsetOutOfRangeException"):
        return OffsetsExpiredError(f"records of the topic {topic} are gone: {_words(error)}", hint=EXPIRED_HINT)
    return explain_look(error, topic=topic, address=address)


def _known(error: Exception, topic: str, address: str) -> BackfillError | None:
    words = _words(error)
    if is_a(error, "UnknownTopicOrPartitionException") or is_a(error, "UnknownTopicIdException"):
        return SourceNotFoundError(f"there is no topic {topic} at {address}.", hint=f"Check {FIELD}.topic.")
    if is_a(error, "AuthorizationException"):
        return PermissionDeniedError(
            f"the topic {topic} at {address} may not be read: {words}",
            hint="Grant this user to describe and to read it.",
        )
    if is_a(error, "SslAuthenticationException") or is_a(error, "SSLHandshakeException"):
        return InvalidSpecError(
            f"{FIELD}: no trusted connection to {address}: {words}",
            hint="Use a name that the broker's certificate has, and put the certificate of its issuer into the Secret as "
            "ssl.truststore.certificates.",
        )
    if is_a(error, "AuthenticationException"):
        return PermissionDeniedError(
            f"{address} does not accept the credentials: {words}",
            hint=f"Check the Secret that {FIELD}.secretRef names, and sasl.mechanism.",
        )
    if is_a(error, "CorruptRecordException") or "Record is corrupt" in words:
        return SourceDamagedError(f"a record of the topic {topic} cannot be read: {words}", hint="Restore the topic.")
    malformed = next((found for _, message in causes(error) if (found := MALFORMED.search(message))), None)
    if malformed is not None:
        return SourceDamagedError(
            f"the record at offset {malformed[2]} of partition {malformed[1]} of the topic {topic} has a time that Spark does not have.",
            hint=TIMES_HINT,
        )
    if is_a(error, "IllegalArgumentException") and "JAAS" in words:
        return InvalidSpecError(  # without Kafka's words, which repeat some of the text
            f"{FIELD}.secretRef: sasl.jaas.config is no login configuration.",
            hint='Write MODULE required username="…" password="…"; or give username and password.',
        )
    if is_a(error, "ConfigException") and "resolvable bootstrap" not in words:
        return InvalidSpecError(f"{FIELD}.options: {words}", hint="Correct the setting, or the file in the Secret.")
    return None


def _words(error: Exception) -> str:
    """Return the innermost text that says something, in one line and without what a setting holds."""
    texts = [message.strip().splitlines()[0] for _, message in causes(error) if message.strip()]
    return _without_value(texts[-1])[:600].rstrip(".") + "." if texts else f"{type(error).__name__}."


def _without_value(text: str) -> str:
    """Return a message without the value of a setting: Kafka repeats it, and a JAAS text holds a password."""
    before, named, value = text.partition("Invalid value ")
    ends = [end for word in (" for configuration", " provided") if (end := value.find(word)) >= 0]
    return f"{before}{named}…{value[min(ends, default=len(value)) :]}" if named else text
