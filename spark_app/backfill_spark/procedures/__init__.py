"""Attempts that perform a procedure on a cluster: a switch-over, its undo, its end, a repair, the end of a deleted job.

Not allowed inside: decisions.
"""
