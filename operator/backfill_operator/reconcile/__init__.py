"""One look at one Backfill: observe, decide, act, write the status."""
