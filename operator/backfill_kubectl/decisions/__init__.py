"""Decisions of the commands: values in, values out.

Not allowed inside: the cluster, the terminal, clocks.
"""
