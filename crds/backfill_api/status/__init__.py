"""Status of a Backfill, as the operator and the driver report it."""
