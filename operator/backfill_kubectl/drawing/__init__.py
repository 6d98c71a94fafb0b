"""Text for a terminal: tables and blocks of values.

Not allowed inside: the cluster, and rules about jobs.
"""
