"""Conditions of a Backfill, their details, and the rule for writing them."""
