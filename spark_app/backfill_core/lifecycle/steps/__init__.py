"""One module for each situation of a Backfill; each step returns one result."""
