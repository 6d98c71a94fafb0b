"""Limits that an administrator sets for specs: images, accounts, volumes, variables, Spark settings.

A pattern is a name, or a prefix followed by `*`; a single `*` matches every name. Every refusal names the setting that
would allow the refused value, so that a user need not search for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

SETTING: Final = "BACKFILL_OPERATOR_"

VOLUMES: Final = (
    "configMap", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
)  # fmt: skip
"""Types of volumes that give no access to a node or another system; `serviceAccountToken` must be allowed separately."""

ENV: Final = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME", "AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE", "AWS_EC2_METADATA_DISABLED", "AWS_USE_FIPS_ENDPOINT",
    "AWS_USE_DUALSTACK_ENDPOINT", "AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_RESPONSE_CHECKSUM_VALIDATION",
    "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN",
    "GOOGLE_CLOUD_PROJECT",
)  # fmt: skip
"""Keys, roles and regions of object stores. The list has full names, because a prefix would include dangerous variables:
a client sends the token of the pod, or of a file, to the address in `AWS_ENDPOINT_URL_STS` or
`AWS_CONTAINER_CREDENTIALS_FULL_URI`."""

METADATA: Final = ("user.backfill.dev/*", "prometheus.io/*", "cluster-autoscaler.kubernetes.io/*")
"""Labels, and annotations with a `.` or `/`. Other annotations are always allowed, because no controller acts on them. A
plain label may be in the selector of another team's Service or NetworkPolicy; `user.backfill.dev/` is in none."""

OPTIONAL_POD_FIELDS: Final = (
    "dnsConfig", "dnsPolicy", "hostAliases", "nodeName", "preemptionPolicy", "resourceClaims", "runtimeClassName", "schedulerName",
)  # fmt: skip
"""The only pod fields that an administrator can allow in addition."""

_REFERENCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
_VERSION: Final = re.compile(r"(:\w[\w.-]{0,127})?(@[a-z0-9]+:[0-9a-f]{32,})?", flags=re.ASCII)


@dataclass(frozen=True, slots=True)
class Limits:
    """Values that a spec may request in addition to the installation's own."""

    images: tuple[str, ...] = ()
    """`host/name:tag` is this image, `host/name` any tag or digest, `host/path/*` every image below, `*` all images."""

    service_accounts: tuple[str, ...] = ()
    volumes: tuple[str, ...] = VOLUMES
    host_paths: tuple[str, ...] = ()
    """Folders of the node that may be mounted, with their subfolders."""

    priority_classes: tuple[str, ...] = ()
    pod_fields: tuple[str, ...] = ()
    """Fields from `OPTIONAL_POD_FIELDS`."""

    env: tuple[str, ...] = ENV
    """`NAME` allows any value; `NAME=value` only this one, for an address or a file that the administrator chooses."""

    metadata: tuple[str, ...] = METADATA
    conf: tuple[str, ...] = ()
    """Further Spark settings, in addition to those that are always allowed."""

    query_urls: tuple[str, ...] = ()
    """Addresses of monitoring systems, or prefixes of such that end in `/*`."""

    sidecars: bool = False
    """True if a template may add containers; `images` applies to them too."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The requests that an installation allows; the default is an installation with the chart's own limits."""

    image: str = ""
    """Image of pods whose spec names none; empty if unknown, as on a laptop."""

    service_account: str = ""
    """Service account of pods whose spec names none; empty if unknown."""

    limits: Limits = field(default_factory=Limits)
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The administrator's pod template by the name of our container; empty if there is none, or if it is unknown."""


def named(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a pattern matches the name."""
    return any(name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in patterns)


def image_allowed(image: str, patterns: Iterable[str]) -> bool:
    """Return whether a pattern matches the image as written: `spark` is not `docker.io/library/spark`."""
    if not _REFERENCE.fullmatch(image) or ".." in image or "//" in image:
        return False
    return any(_image_matches(image, pattern) for pattern in patterns)


def _image_matches(image: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return image.startswith(pattern[:-1])
    if image == pattern:
        return True
    # A pattern with a version matches only that version; a digest after its tag could select another image.
    versioned = ":" in pattern.rsplit("/", 1)[-1] or "@" in pattern
    return not versioned and image.startswith(pattern) and bool(_VERSION.fullmatch(image.removeprefix(pattern)))


def below(path: str, folders: Iterable[str]) -> bool:
    """Return whether the path is one of the folders or below one; it must be absolute, without `.` and `..`."""
    parts = path.split("/")
    if not path.startswith("/") or "." in parts or ".." in parts:
        return False
    return any(f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)


def permission(setting: str, value: str) -> str:
    """Return the administrator's action that allows a value, with the chart's value and the operator's variable."""
    first, *words = setting.split("_")
    chart_value = first.lower() + "".join(word.capitalize() for word in words)
    return f"add {value} to limits.{chart_value} of the chart ({SETTING}{setting})"
