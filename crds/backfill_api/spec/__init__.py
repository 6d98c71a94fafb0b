"""Spec of a Backfill."""
