"""Names that the cluster knows; changing one is a change of the API."""

GROUP = "backfill.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "Backfill"
PLURAL = "backfills"
SINGULAR = "backfill"
SHORT_NAMES = ("bf",)
OVERRIDE_ANNOTATION = f"{GROUP}/override"
