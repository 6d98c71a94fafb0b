"""One module for each situation of a Backfill; each returns one result."""
