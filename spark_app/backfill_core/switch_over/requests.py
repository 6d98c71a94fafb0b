"""Requests of a switch-over that a spec or a state refuses before any driver reads a table."""

from __future__ import annotations

from backfill_api.spec.params import SourceAbility
from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import BackfillError, InvalidSpecError
from backfill_core.switch_over.obstacles import check_spec


def refused_switch(spec: BackfillSpec) -> BackfillError | None:
    """Return why no switch-over is possible with a spec on a cluster; `None` if one is."""
    if SourceAbility.OFFSETS in spec.source.variant.abilities:
        return InvalidSpecError(
            f"spec.source.type: {spec.source.type} cannot be switched over: it has no log to which a fence can be added.",
            hint="Stop its producers, wait until the target has caught up, and suspend the Backfill.",
        )
    if spec.switch.flip.command:
        return InvalidSpecError(
            "spec.switch.flip.type: Command runs an executable, which is not possible on a cluster.",
            hint="Use HiveTable, View or None.",
        )
    try:
        check_spec(spec)
    except InvalidSpecError as error:
        return error
    return None
