"""Settings of InPlace; the API package defines the parameters that users set, for the CRD."""

from __future__ import annotations

from backfill_api.spec.spec import BackfillSpec
from backfill_api.spec.strategies.in_place import InPlaceParams
from backfill_core.in_place.files import FillScope
from backfill_core.in_place.fillable import FillExpressions


def conflicts_max_of(spec: BackfillSpec) -> int:
    """Return the limit of failed transactions of other writers, in percent."""
    params = spec.strategy.params
    assert isinstance(params, InPlaceParams)
    return params.max_writer_conflicts


def scope_of(spec: BackfillSpec) -> FillScope:
    """Return the rows that a spec fills; each listing replaces it by a scope with the facts of the table."""
    transform = spec.transform
    expressions = FillExpressions(transform.set, {}, transform.set_where)
    return FillScope(expressions.tag({}), tuple(transform.set), fills_nulls=transform.set_where is None)
