"""A Kafka topic as a source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StrictInt, StringConstraints, model_validator

from backfill_api.model import cel, refused
from backfill_api.spec.bounds import COUNT_MAX, Name, Value
from backfill_api.spec.params import BAD_RECORD_RULES, OffsetSourceParams, SourceAbility, Variant
from backfill_api.spec.secret_settings import holds_a_secret

OPTIONS: Final = frozenset(
    {
        "client.dns.lookup", "client.id", "client.rack", "connections.max.idle.ms", "default.api.timeout.ms", "fetch.max.bytes",
        "fetch.max.wait.ms", "fetch.min.bytes", "max.partition.fetch.bytes", "max.poll.records", "metadata.max.age.ms",
        "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retry.backoff.max.ms",
        "retry.backoff.ms", "sasl.kerberos.service.name", "sasl.mechanism", "security.protocol", "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms", "ssl.cipher.suites",
        "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.protocol",
    }
)  # fmt: skip
"""Settings of a Kafka client that a spec may give. What decides which records are read, and what holds a secret, is not among them."""

_ADDRESSES: Final = r"^[^\s,:/@]+:[0-9]{1,5}(,[^\s,:/@]+:[0-9]{1,5})*$"
_ADDRESS_RULE: Final = "^[^\\\\s,:/@]+:[0-9]{1,5}(,[^\\\\s,:/@]+:[0-9]{1,5})*$"

Addresses = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=2048)]
Topic = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=249)]
Offset = Annotated[StrictInt, Field(ge=0, le=COUNT_MAX)]
Options = Annotated[dict[str, Value], Field(max_length=32)]
StartingOffsets = Annotated[dict[str, Offset], Field(max_length=10_000)]


class KafkaSource(OffsetSourceParams):
    """Kafka topic: its history and new records."""

    model_config = cel(
        *BAD_RECORD_RULES,
        (f"self.bootstrapServers.matches('{_ADDRESS_RULE}')", "bootstrapServers is a list of host:port, with commas"),
        ("self.topic.matches('^[a-zA-Z0-9._-]+$')", "topic is not the name of a topic"),
        (
            f"!has(self.options) || self.options.all(k, k in {sorted(OPTIONS)})",
            "options has a setting that a spec may not give; secrets come from secretRef",
        ),
        (
            "!has(self.options) || self.options.all(k, !self.options[k].contains('${'))",
            "options refers to a file with ${",
        ),
    )
    MAY_CHANGE = OffsetSourceParams.MAY_CHANGE | {
        "bootstrap_servers", "options", "secret_ref", "starting_offsets", "partition_starting_offsets",
    }  # fmt: skip

    bootstrap_servers: Addresses
    """Addresses of brokers, `host:port`, with commas between them; a change counts from the next attempt."""

    topic: Topic
    """The topic; every partition of it is read, also those that are added later."""

    isolation: Literal["ReadCommitted", "ReadUncommitted"] = "ReadCommitted"
    """`ReadCommitted`: records of aborted transactions are not read, and those of open ones not before they end."""

    starting_offsets: Literal["Earliest", "Latest"] = "Earliest"
    """First offset of a new job: `Earliest` is the oldest record, `Latest` is after the newest."""

    partition_starting_offsets: StartingOffsets = Field(default={})
    """Offset of the first record to read, by partition, in place of `startingOffsets`."""

    options: Options = Field(default={})
    """Further settings of the Kafka client, such as `security.protocol` and `sasl.mechanism`; a change counts from the next attempt."""

    secret_ref: Name | None = None
    """Name of a Secret whose keys are the client's secret settings, such as `sasl.jaas.config`, or `username` and `password`;
    a local run reads them from the folder `BACKFILL_SOURCE_SECRET_DIR`."""

    @property
    def paths(self) -> Mapping[str, str]:
        """`None` if it is not a folder."""
        return {}

    @property
    def label(self) -> str:
        """The topic."""
        return f"topic {self.topic}"

    @property
    def dataset(self) -> tuple[str, str]:
        """The first broker, and the topic."""
        return f"kafka://{self.bootstrap_servers.split(',')[0]}", self.topic

    @property
    def secret(self) -> str | None:
        """The Secret of `secretRef`."""
        return self.secret_ref

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if not re.fullmatch(_ADDRESSES, self.bootstrap_servers):
            message = "is not a list of host:port, with commas between them"
            # It may hold a user and a password.
            raise refused("bootstrapServers", message, hint="write broker-1:9092,broker-2:9092")
        if not re.fullmatch(r"[a-zA-Z0-9._-]+", self.topic):
            hint = "a topic has letters, digits, dots, underscores and hyphens; one topic a job"
            raise refused("topic", "is not the name of a topic", hint=hint, value=self.topic)
        for name in self.options:
            self._check_option(name)
        for partition in self.partition_starting_offsets:
            if not re.fullmatch(r"0|[1-9][0-9]{0,8}", partition):
                hint = 'write partition: offset, as "0": 1500'
                raise refused(f'partitionStartingOffsets["{partition}"]', "is no partition", hint=hint)
        return self

    def _check_option(self, name: str) -> None:
        path = f'options["{name}"]'
        if name in OPTIONS:
            if "${" in self.options[name]:
                # In addition to a Secret, the client would read a file of its pod, such as a token, and send it to its broker.
                raise refused(path, "refers to a file with ${", hint="write the value itself")
            return
        if holds_a_secret(name) or name.startswith(("sasl.", "ssl.")):
            message = "may be a secret, and everyone who may read the Backfill could read it"
            raise refused(path, message, hint=f"put {name} into a Secret, and name that in secretRef")
        raise refused(path, "may not be given", hint=f"use one of {', '.join(sorted(OPTIONS))}")


VARIANT = Variant("Kafka", KafkaSource, abilities=frozenset({SourceAbility.OFFSETS}))
