"""Names that the cluster knows; changing one is a change of the API."""

from typing import Final

GROUP: Final = "backfill.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "backfill.dev/v1alpha1"
KIND: Final = "Backfill"
LIST_KIND: Final = "BackfillList"
PLURAL: Final = "backfills"
SINGULAR: Final = "backfill"
SHORT_NAMES: Final = ("bf",)
CATEGORIES: Final = ("all",)

DEFAULT_NAMESPACE: Final = "default"

OVERRIDE_ANNOTATION: Final = f"{GROUP}/override"
"""JSON with `desiredState`, `throttle` or `suspend`; honoured above the spec."""

BACKFILL_LABEL: Final = f"{GROUP}/backfill"
"""Name of the Backfill, on every object that belongs to it."""

ATTEMPT_LABEL: Final = f"{GROUP}/attempt"
"""Number of the attempt, on the objects of one attempt."""

ROLE_LABEL: Final = f"{GROUP}/role"
"""`driver` or `executor`."""

FIELD_MANAGER: Final = "backfill-operator"
"""Owner of the fields that the operator applies."""
