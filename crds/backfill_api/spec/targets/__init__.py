"""Targets. Each module is a plug-in with its parameters and its `VARIANT`, and is found by discovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_api import plugins
from backfill_api.spec.params import TargetParams, Variant
from backfill_api.spec.union import TaggedUnion, tagged_union


class _Target(TaggedUnion):
    """Target of the rows."""

    if TYPE_CHECKING:

        @property
        def params(self) -> TargetParams: ...


Target = _Target
if not TYPE_CHECKING:
    Target = tagged_union(
        _Target,
        plugins.discover(__name__, __path__, group="backfill.api.targets", attribute="VARIANT", kind=Variant),
    )
