"""What an administrator lets a spec ask of a pod: images, accounts, volumes, variables, Spark settings. A list of what may be.

A pattern is a name, or the beginning of one followed by `*`; `*` alone is every name. Every refusal names the setting
that would allow what was refused, so that a user need not look for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SETTING: Final = "BACKFILL_OPERATOR_"

VOLUMES: Final = (
    "configMap", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
)  # fmt: skip
"""Types of volumes that no node and no other system has to trust. `serviceAccountToken` is a word of its own."""

ENV: Final = ("AWS_*", "AZURE_*", "GOOGLE_*")
"""Credentials and regions of object stores."""

METADATA: Final = ("app.kubernetes.io/*", "prometheus.io/*", "cluster-autoscaler.kubernetes.io/*")
"""Labels and annotations; names without `.` and `/` may always be given, because no controller listens to them."""

OPTIONAL_POD_FIELDS: Final = (
    "dnsConfig", "dnsPolicy", "hostAliases", "nodeName", "preemptionPolicy", "resourceClaims", "runtimeClassName", "schedulerName",
)  # fmt: skip
"""Fields of a pod that only an administrator lets a template set; no others can be allowed."""

_REFERENCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
_VERSION: Final = re.compile(r"(:\w[\w.-]{0,127})?(@[a-z0-9]+:[0-9a-f]{32,})?", flags=re.ASCII)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a spec may ask for beyond what the installation itself uses."""

    images: tuple[str, ...] = ()
    """`host/name:tag`: this one; `host/name`: with any tag or digest; `host/path/*`: every image below; `*`: all."""

    service_accounts: tuple[str, ...] = ()
    volumes: tuple[str, ...] = VOLUMES
    host_paths: tuple[str, ...] = ()
    """Folders of the node that may be mounted, and everything below each."""

    priority_classes: tuple[str, ...] = ()
    pod_fields: tuple[str, ...] = ()
    """Of `OPTIONAL_POD_FIELDS`."""

    env: tuple[str, ...] = ENV
    metadata: tuple[str, ...] = METADATA
    conf: tuple[str, ...] = ()
    """Spark settings beyond the ones that are always allowed."""

    sidecars: bool = False
    """May a template bring containers of its own? Their images are looked up in `images` too."""


def named(name: str, patterns: Iterable[str]) -> bool:
    """Does one of the patterns stand for the name?"""
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns)


def image_allowed(image: str, patterns: Iterable[str]) -> bool:
    """Does one of the patterns stand for the image? Names are compared as written: `spark` is not `docker.io/library/spark`."""
    if not _REFERENCE.fullmatch(image) or ".." in image or "//" in image:
        return False
    return any(_image_matches(image, one) for one in patterns)


def _image_matches(image: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return image.startswith(pattern[:-1])
    if image == pattern:
        return True
    # A pattern that says which version means that one: behind a tag, a digest would choose another.
    versioned = ":" in pattern.rsplit("/", 1)[-1] or "@" in pattern
    return not versioned and image.startswith(pattern) and bool(_VERSION.fullmatch(image.removeprefix(pattern)))


def below(path: str, folders: Iterable[str]) -> bool:
    """Is the path one of the folders, or below one? It must be absolute and without `.` and `..`."""
    parts = path.split("/")
    if not path.startswith("/") or "." in parts or ".." in parts:
        return False
    return any(f"{path.rstrip('/')}/".startswith(f"{one.rstrip('/')}/") for one in folders)


def ask_for(setting: str, value: str) -> str:
    """Return the half of a hint that names who can allow it, and where."""
    return f"or have an administrator add {value} to {SETTING}{setting}"
