"""Attempts that perform a procedure on a cluster: a switch-over, its undo, its end, or a repair. Not allowed inside: decisions."""
