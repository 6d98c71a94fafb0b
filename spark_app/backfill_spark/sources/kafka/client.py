"""Shared configuration of Kafka clients: those with which Spark reads records, and the one that requests offsets.

It never contains a secret, but refers to a file that each client reads through a Kafka configuration provider. So plans, event
logs, messages and serialized tasks contain no secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from backfill_api.spec.sources.kafka import KafkaSource
from backfill_core.errors import InvalidSpecError

SECRETS = (
    "sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
)
"""Settings that may be files of the Secret's folder, by file name."""

STORES = {"keystore": "ssl.keystore", "truststore": "ssl.truststore"}
STORE_TYPES = {".jks": "JKS", ".p12": "PKCS12", ".pem": "PEM"}
"""Types of files with keys or certificates that a client opens itself, such as `truststore.p12`."""

USER, PASSWORD = "username", "password"
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
DEFAULTS = {
    # Requests to a broker that does not answer are retried with growing pauses, for this time in total.
    "default.api.timeout.ms": "20000",
    "request.timeout.ms": "10000",
    "reconnect.backoff.max.ms": "2000",
    # A consumer at the newest record has sent a request for more, and reads nothing else until the broker answers it.
    "fetch.max.wait.ms": "10",
}
ISOLATION = {"ReadCommitted": "read_committed", "ReadUncommitted": "read_uncommitted"}
FIELD = "spec.source.kafka"


@dataclass(frozen=True)
class ClientSettings:
    """Settings of a Kafka client, without any secret."""

    values: Mapping[str, str]
    address: str = field(default="")
    """Broker address for messages."""

    @property
    def of_spark(self) -> dict[str, str]:
        """The same settings with the prefix of Spark's connector."""
        return {f"kafka.{name}": value for name, value in self.values.items()}


def client_settings(params: KafkaSource, folder: Path | None) -> ClientSettings:
    """Return the settings of all clients of a topic.

    Args:
        params: `spec.source.kafka`.
        folder: Folder with the files of the Secret; `None` without a Secret.

    Raises:
        InvalidSpecError: the spec names a Secret, but its files are missing or invalid.
    """
    settings = {
        **DEFAULTS,
        **params.options,
        "bootstrap.servers": params.bootstrap_servers,
        "isolation.level": ISOLATION[params.isolation],
    }
    if params.secret_ref is not None:
        settings |= _of_files(_files(params.secret_ref, folder), settings.get("sasl.mechanism", ""))
    return ClientSettings(settings, params.bootstrap_servers)


def _files(name: str, folder: Path | None) -> dict[str, Path]:
    """Return the files of a Secret by name, without the hidden folders of a mounted Secret."""
    if folder is None:
        raise InvalidSpecError(
            f"{FIELD}.secretRef names the Secret {name}, but this process has no folder with its keys.",
            hint="Set BACKFILL_SOURCE_SECRET_DIR to a folder with one file for each key.",
        )
    # Not resolved: the files of a Secret are links into a folder whose name differs between pods.
    files = {path.name: path.absolute() for path in sorted(folder.glob("*")) if path.is_file()}
    if not files:
        raise InvalidSpecError(
            f"{FIELD}.secretRef: the folder {folder} has no files.",
            hint="Put one file for each key of the Secret into it.",
        )
    return files


def _of_files(files: Mapping[str, Path], mechanism: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for name, path in files.items():
        stem, store_type = STORES.get(path.stem, ""), STORE_TYPES.get(path.suffix, "")
        if name in SECRETS:
            settings[name] = _reference(path)
        elif stem and store_type:
            settings |= {f"{stem}.location": str(path), f"{stem}.type": store_type}
        elif name not in (USER, PASSWORD):
            allowed = ", ".join((*SECRETS, USER, PASSWORD, *(f"{store}.p12" for store in STORES)))
            raise InvalidSpecError(
                f"{FIELD}.secretRef: the key {name} is unknown.", hint=f"A Secret may have {allowed}."
            )
    if "ssl.truststore.certificates" in settings:
        settings.setdefault("ssl.truststore.type", "PEM")
    if "ssl.keystore.key" in settings:
        settings.setdefault("ssl.keystore.type", "PEM")
    if USER in files and PASSWORD in files and "sasl.jaas.config" not in settings:
        settings["sasl.jaas.config"] = _login(files, mechanism)
    if any("${" in value for value in settings.values()):
        settings |= {
            "config.providers": "dir",
            "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        }
    return settings


def _login(files: Mapping[str, Path], mechanism: str) -> str:
    module = LOGIN_MODULES.get(mechanism)
    if module is None:
        raise InvalidSpecError(
            f"{FIELD}.options: the Secret has a user and a password, but sasl.mechanism is {mechanism or 'not set'}.",
            hint=f"Set sasl.mechanism to {', '.join(LOGIN_MODULES)}, or put sasl.jaas.config into the Secret.",
        )
    return f'{module} required username="{_reference(files[USER])}" password="{_reference(files[PASSWORD])}";'


def _reference(path: Path) -> str:
    return f"${{dir:{path.parent}:{path.name}}}"
