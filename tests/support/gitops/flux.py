"""Flux, reduced to evaluating health expressions: generation first, then inProgress, failed and current, else it waits."""

import cel
import yaml
from support.repository import ROOT

DOCUMENTS = list(yaml.safe_load_all((ROOT / "examples" / "gitops" / "flux.yaml").read_text()))
ORDER = (("inProgress", "InProgress"), ("failed", "Failed"), ("current", "Current"))


class FluxHealth:
    """Flux's health of a Backfill by the expressions of the example; the input of each is the whole object."""

    def __init__(self):
        [self._expressions] = [
            checks for document in DOCUMENTS for checks in document["spec"].get("healthCheckExprs", ())
        ]

    @property
    def kind(self):
        """The kind that the expressions are for."""
        return self._expressions["apiVersion"], self._expressions["kind"]

    def health(self, backfill):
        """Return the status; an expression that cannot be evaluated is an error, as in Flux."""
        observed = backfill.get("status", {}).get("observedGeneration")
        if observed is not None and observed != backfill["metadata"]["generation"]:
            return "InProgress"
        for name, status in ORDER:
            holds = cel.evaluate(self._expressions[name], backfill)
            assert isinstance(holds, bool), name
            if holds:
                return status
        return "InProgress"
