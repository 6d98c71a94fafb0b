"""Many partitions in few bytes: a thousand of them in about 30 KiB of a state of 64 KiB.

Each partition is its name and five numbers that are small where nothing is extraordinary: where it starts, what is done, what is
missing, what is new, and the offsets without a record. A number takes seven bits a byte, the lowest first.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping

from backfill_core.positions.offsets import Offsets
from backfill_core.strategies.source_splits.split import Split


def pack(splits: Mapping[str, Split]) -> str:
    """Return partitions as text, in the order of their names."""
    packed = bytearray()
    for name in sorted(splits):
        one = splits[name]
        done = one.next - one.start
        _name(packed, name)
        # More records than offsets there are not; else the number would be negative.
        _write(packed, (one.start, done, one.end - one.next, one.live - one.end, done - one.records))
    return base64.b64encode(bytes(packed)).decode()


def unpack(text: object) -> dict[str, Split]:
    """Read what `pack` returned.

    Raises:
        ValueError: it is something else.
    """
    if type(text) is not str:
        raise ValueError(f"no packed partitions: {text!r}"[:200])
    octets = iter(base64.b64decode(text, validate=True))
    found: dict[str, Split] = {}
    for length in _lengths(octets):
        name = bytes(_take(octets, length)).decode()
        start, done, missing, new, without = (_read(octets) for _ in range(5))
        end = start + done + missing
        found[name] = Split(start, start + done, end, end + new, done - without)
        found[name].check()
    return found


def pack_offsets(offsets: Offsets) -> str:
    """Return an offset of each partition as text, in the order of their names."""
    packed = bytearray()
    for name in sorted(offsets):
        _name(packed, name)
        _write(packed, (offsets[name],))
    return base64.b64encode(bytes(packed)).decode()


def unpack_offsets(text: str) -> Offsets:
    """Read what `pack_offsets` returned.

    Raises:
        ValueError: it is something else.
    """
    octets = iter(base64.b64decode(text, validate=True))
    return {bytes(_take(octets, length)).decode(): _read(octets) for length in _lengths(octets)}


def _name(packed: bytearray, name: str) -> None:
    word = name.encode()
    _write(packed, (len(word),))
    packed += word


def _write(packed: bytearray, numbers: Iterable[int]) -> None:
    for number in numbers:
        left = number
        while left >= 0x80:
            packed.append(left & 0x7F | 0x80)
            left >>= 7
        packed.append(left)


def _lengths(octets: Iterator[int]) -> Iterator[int]:
    """Return the numbers with which partitions begin, as long as there are any."""
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
        raise ValueError("packed partitions end in the middle of one")
    return octet
