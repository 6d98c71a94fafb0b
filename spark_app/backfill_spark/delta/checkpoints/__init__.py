"""Checkpoints of a Delta table: who writes them, so that every engine reads what the commits say."""
