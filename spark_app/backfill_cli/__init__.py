"""The `backfill` command: parses words, calls the driver or talks to a running one, and shows what they say."""
