"""Answers to commands, and the table of past runs.

Not allowed inside: sending commands, and everything that `backfill_console` forbids.
"""
