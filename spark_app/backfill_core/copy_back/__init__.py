"""Copies back: the old source of a switch-over follows the target. Not allowed inside: reads and writes of a table."""
