"""The name of an attempt's objects: one for all kinds, stable, and valid for the strictest kind."""

from __future__ import annotations

import hashlib
import re
from typing import Final

BASE_CHARACTERS_MAX: Final = 46
"""Length left for the base: 63 of a Service's name, less `-driver` and an attempt of up to nine digits with its hyphen."""

DIGITS_MAX: Final = 9

_HASH_CHARACTERS = 20
"""80 bits. With 32 bits, a second name with the same hash is found within an hour, and its objects would block those of the first one."""

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_HASHED = re.compile(rf"-[0-9a-f]{{{_HASH_CHARACTERS}}}\Z")


def base_name(backfill: str) -> str:
    """Return a Backfill's name, or a short valid form with a hash: a Service allows neither dots nor a leading digit.

    A name that ends like such a form gets a hash too. Otherwise any user could choose the form of another Backfill as a name.
    """
    if len(backfill) <= BASE_CHARACTERS_MAX and _DNS_1035.fullmatch(backfill) and not _HASHED.search(backfill):
        return backfill
    digest = hashlib.sha256(backfill.encode(errors="replace")).hexdigest()[:_HASH_CHARACTERS]
    # Each replacement leaves a character, so later ones are cut off anyway.
    plain = re.sub(r"[^a-z0-9]+", "-", backfill.lower(), count=BASE_CHARACTERS_MAX)
    if not plain[:1].isalpha():
        plain = f"b-{plain}"
    kept = plain[: BASE_CHARACTERS_MAX - _HASH_CHARACTERS - 1].strip("-")
    return f"{kept}-{digest}"


def number_of(backfill: str, pod: str) -> int | None:
    """Return the number of the attempt whose driver has this name; `None` if it is not a driver of this Backfill."""
    base = base_name(backfill)
    digits = pod.removeprefix(f"{base}-").removesuffix("-driver")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= DIGITS_MAX):
        return None
    number = int(digits)
    return number if number >= 1 and driver_name(backfill, number) == pod else None


def driver_name(backfill: str, attempt: int) -> str:
    """Return the name of an attempt's pod, Service, ConfigMap and Secret."""
    return f"{base_name(backfill)}-{attempt}-driver"
