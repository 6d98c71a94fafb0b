"""Snapshot backfill: one pinned version, then its change log, then live."""
