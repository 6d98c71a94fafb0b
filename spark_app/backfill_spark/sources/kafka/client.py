"""The one configuration of Kafka clients: of those that Spark reads records with, and of the one that asks for offsets.

A secret is never a value of it. It names a file, which each client reads for itself (a configuration provider of Kafka's own),
so no plan, event log, message or serialized task holds it.
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
"""Settings that a file of the folder of secrets may hold, by its name."""

STORES = {"keystore": "ssl.keystore", "truststore": "ssl.truststore"}
STORE_TYPES = {".jks": "JKS", ".p12": "PKCS12", ".pem": "PEM"}
"""Files with keys or certificates that a client opens itself: `truststore.p12` and the like."""

USER, PASSWORD = "username", "password"
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
DEFAULTS = {
    # A broker that does not answer is looked for with growing pauses, for so long.
    "default.api.timeout.ms": "20000",
    "request.timeout.ms": "10000",
    "reconnect.backoff.max.ms": "2000",
    # A consumer that read up to the newest record has asked for more, and reads nothing else until that is answered.
    "fetch.max.wait.ms": "10",
}
ISOLATION = {"ReadCommitted": "read_committed", "ReadUncommitted": "read_uncommitted"}
FIELD = "spec.source.kafka"


@dataclass(frozen=True)
class ClientSettings:
    """Settings of a Kafka client, without any secret."""

    values: Mapping[str, str]
    address: str = field(default="")
    """For people."""

    @property
    def of_spark(self) -> dict[str, str]:
        """The same, as Spark's connector takes them."""
        return {f"kafka.{name}": value for name, value in self.values.items()}


def client_settings(params: KafkaSource, folder: Path | None) -> ClientSettings:
    """Return the settings of all clients of a topic.

    Args:
        params: `spec.source.kafka`.
        folder: With the files of the Secret; None: there is none.

    Raises:
        InvalidSpecError: a Secret is named and its files are not there, or are of no use.
    """
    found = {
        **DEFAULTS,
        **params.options,
        "bootstrap.servers": params.bootstrap_servers,
        "isolation.level": ISOLATION[params.isolation],
    }
    if params.secret_ref is not None:
        found |= _of_files(_files(params.secret_ref, folder), found.get("sasl.mechanism", ""))
    return ClientSettings(found, params.bootstrap_servers)


def _files(name: str, folder: Path | None) -> dict[str, Path]:
    """Return the files of a Secret by name; a Secret that is mounted has hidden folders too."""
    if folder is None:
        raise InvalidSpecError(
            f"{FIELD}.secretRef names the Secret {name}, and this process has no folder with its keys.",
            hint="Set BACKFILL_SOURCE_SECRET_DIR to a folder with one file for each key.",
        )
    # Not resolved: the files of a Secret are links into a folder whose name differs from pod to pod.
    files = {one.name: one.absolute() for one in sorted(folder.glob("*")) if one.is_file()}
    if not files:
        raise InvalidSpecError(
            f"{FIELD}.secretRef: the folder {folder} has no files.",
            hint="Put one file for each key of the Secret there.",
        )
    return files


def _of_files(files: Mapping[str, Path], mechanism: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, path in files.items():
        stem, store_type = STORES.get(path.stem, ""), STORE_TYPES.get(path.suffix, "")
        if name in SECRETS:
            found[name] = _reference(path)
        elif stem and store_type:
            found |= {f"{stem}.location": str(path), f"{stem}.type": store_type}
        elif name not in (USER, PASSWORD):
            known = ", ".join((*SECRETS, USER, PASSWORD, *(f"{one}.p12" for one in STORES)))
            raise InvalidSpecError(f"{FIELD}.secretRef: the key {name} is unknown.", hint=f"A Secret may have {known}.")
    if "ssl.truststore.certificates" in found:
        found.setdefault("ssl.truststore.type", "PEM")
    if "ssl.keystore.key" in found:
        found.setdefault("ssl.keystore.type", "PEM")
    if USER in files and PASSWORD in files and "sasl.jaas.config" not in found:
        found["sasl.jaas.config"] = _login(files, mechanism)
    if any("${" in value for value in found.values()):
        found |= {
            "config.providers": "dir",
            "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        }
    return found


def _login(files: Mapping[str, Path], mechanism: str) -> str:
    module = LOGIN_MODULES.get(mechanism)
    if module is None:
        raise InvalidSpecError(
            f"{FIELD}.options: a user and a password are given, and sasl.mechanism is {mechanism or 'not'}.",
            hint=f"Set sasl.mechanism to {', '.join(LOGIN_MODULES)}, or put sasl.jaas.config into the Secret.",
        )
    return f'{module} required username="{_reference(files[USER])}" password="{_reference(files[PASSWORD])}";'


def _reference(path: Path) -> str:
    return f"${{dir:{path.parent}:{path.name}}}"
