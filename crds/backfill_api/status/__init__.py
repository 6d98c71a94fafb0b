"""What the operator and the driver say about a Backfill."""
