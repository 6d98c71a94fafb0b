"""Tables for a terminal.

Not allowed inside: the cluster, and rules about jobs.
"""
