"""The life of a Backfill on a cluster: one look in, one decision out. No clock, no API, no thread.

`decide` is the one way in; `words` holds what goes in and comes out. Not allowed inside: anything that asks, waits or
writes, and any memory beside the status, because the operator may die between two lines.
"""
