"""Checkpoints of a Delta table, written so that every engine reads the same state as from the commits."""
