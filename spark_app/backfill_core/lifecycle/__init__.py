"""The life of a Backfill on a cluster: one observation in, one decision out. No clock, no API, no thread.

    decide.decide         the one entry point
    observation, actions  what goes in and what comes out
    inputs                the observation classified: context, desired state, policy, termination, timestamps, backoff
    steps                 one module for each situation of a Backfill; `step` has what they share
    status                conditions, their details, and when a status is worth a write

Nothing here asks, waits, writes or remembers: the operator may die between any two lines, and all memory is in the status.
"""
