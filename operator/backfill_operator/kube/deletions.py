"""The newest deleted objects, so that no response, page or event that is older than a deletion returns an object."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

KEPT_MAX: Final = 10_000
"""Number of deletions, each with about 100 bytes. Requests that began before so many deletions have ended by then."""


class Deletions:
    """Deleted objects by UID."""

    def __init__(self) -> None:
        """Start without a deletion."""
        self._versions: OrderedDict[str, float] = OrderedDict()
        self._relisting = False

    def __len__(self) -> int:
        """Return the number of recorded deletions."""
        return len(self._versions)

    def note(self, uid: str, version: float = math.inf) -> None:
        """Record a deletion.

        Args:
            uid: The object.
            version: Older versions of the object are covered. A watch with a selector also reports an object as deleted
                that no longer matches; such an object may return with this version or a later one.
        """
        self._versions[uid] = max(version, self._versions.pop(uid, version))
        self._trim()

    def cover(self, uid: str, version: int) -> bool:
        """Return whether this version of an object is older than its deletion."""
        return version < self._versions.get(uid, -math.inf)

    def begin_relist(self) -> None:
        """Keep all deletions until the end of the relist, because a page may be older than each of them."""
        self._relisting = True

    def end_relist(self) -> None:
        """Keep only the newest deletions again."""
        self._relisting = False
        self._trim()

    def _trim(self) -> None:
        while len(self._versions) > KEPT_MAX and not self._relisting:
            self._versions.popitem(last=False)
