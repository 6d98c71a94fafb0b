"""Fence of a source: a log entry that makes a Delta table read-only for all writers. Not allowed inside: reads and writes of a log."""
