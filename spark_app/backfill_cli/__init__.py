"""The `backfill` command: parses options, calls the package `backfill`, and prints its results."""
