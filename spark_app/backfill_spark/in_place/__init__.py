"""Files of a live table that a job fills, and the entries of the log that replace them. Rules are in `backfill_core.in_place`."""
