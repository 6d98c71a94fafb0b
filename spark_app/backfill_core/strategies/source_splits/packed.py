"""Compact encoding of partitions: a thousand of them take about 30 KiB of a state, whose limit is 64 KiB.

A partition is encoded as its name and five numbers, which are usually small: the start, and the numbers of offsets that are done,
missing, new and without a record. A number is a varint: seven bits in each byte, lowest bits first.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping

from backfill_core.positions.offsets import Offsets
from backfill_core.strategies.source_splits.split import Split


def pack(splits: Mapping[str, Split]) -> str:
    """Encode partitions as a string, ordered by name."""
    packed = bytearray()
    for name in sorted(splits):
        split = splits[name]
        done = split.next - split.start
        _name(packed, name)
        # The last number is never negative: there are at most as many records as offsets.
        _write(packed, (split.start, done, split.end - split.next, split.live - split.end, done - split.records))
    return base64.b64encode(bytes(packed)).decode()


def unpack(text: object) -> dict[str, Split]:
    """Decode the result of `pack`.

    Raises:
        ValueError: The value is malformed.
    """
    if type(text) is not str:
        raise ValueError(f"not packed partitions: {text!r}"[:200])
    octets = iter(base64.b64decode(text, validate=True))
    splits: dict[str, Split] = {}
    for length in _lengths(octets):
        name = bytes(_take(octets, length)).decode()
        start, done, missing, new, without = (_read(octets) for _ in range(5))
        end = start + done + missing
        splits[name] = Split(start, start + done, end, end + new, done - without)
        splits[name].check()
    return splits


def pack_offsets(offsets: Offsets) -> str:
    """Encode one offset for each partition as a string, ordered by name."""
    packed = bytearray()
    for name in sorted(offsets):
        _name(packed, name)
        _write(packed, (offsets[name],))
    return base64.b64encode(bytes(packed)).decode()


def unpack_offsets(text: str) -> Offsets:
    """Decode the result of `pack_offsets`.

    Raises:
        ValueError: The value is malformed.
    """
    octets = iter(base64.b64decode(text, validate=True))
    return {bytes(_take(octets, length)).decode(): _read(octets) for length in _lengths(octets)}


def _name(packed: bytearray, name: str) -> None:
    encoded = name.encode()
    _write(packed, (len(encoded),))
    packed += encoded


def _write(packed: bytearray, numbers: Iterable[int]) -> None:
    for number in numbers:
        left = number
        while left >= 0x80:
            packed.append(left & 0x7F | 0x80)
            left >>= 7
        packed.append(left)


def _lengths(octets: Iterator[int]) -> Iterator[int]:
    """Yield the length of the next partition's name until the input ends."""
    for first in octets:
        yield first if first < 0x80 else (first & 0x7F) + (_read(octets) << 7)


def _take(octets: Iterator[int], count: int) -> Iterator[int]:
    for _ in range(count):
        yield _next(octets)


def _read(octets: Iterator[int]) -> int:
    number = shift = 0
    while True:
        octet = _next(octets)
        number |= (octet & 0x7F) << shift
        if octet < 0x80:
            return number
        shift += 7


def _next(octets: Iterator[int]) -> int:
    octet = next(octets, None)
    if octet is None:
        raise ValueError("packed partitions are cut off")
    return octet
