"""The Backfills of a cluster as the source of the page, and the command that serves it."""
