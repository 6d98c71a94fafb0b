"""Where rows go. One module a plug-in, with its parameters and its `VARIANT`; found because it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_api import plugins
from backfill_api.spec.params import TargetParams, Variant
from backfill_api.spec.union import TaggedUnion, tagged_union


class _Target(TaggedUnion):
    """Where rows go."""

    if TYPE_CHECKING:

        @property
        def params(self) -> TargetParams: ...


Target = _Target
if not TYPE_CHECKING:
    Target = tagged_union(
        _Target,
        plugins.discover(__name__, __path__, group="backfill.api.targets", attribute="VARIANT", kind=Variant),
    )
