"""Fills columns of a live table in place: opens it, stages filled copies of its files, and replaces the files. Rules are in `backfill_core.in_place`."""
