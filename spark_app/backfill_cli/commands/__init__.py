"""The commands of `backfill`, a module each."""
