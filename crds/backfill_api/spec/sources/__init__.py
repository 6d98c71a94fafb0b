"""Sources. Each module is a plug-in with its parameters and its `VARIANT`, and is found by discovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_api import plugins
from backfill_api.spec.params import SourceParams, Variant
from backfill_api.spec.union import TaggedUnion, tagged_union


class _Source(TaggedUnion):
    """Source of the rows."""

    if TYPE_CHECKING:

        @property
        def params(self) -> SourceParams: ...


Source = _Source
if not TYPE_CHECKING:
    Source = tagged_union(
        _Source,
        plugins.discover(__name__, __path__, group="backfill.api.sources", attribute="VARIANT", kind=Variant),
    )
