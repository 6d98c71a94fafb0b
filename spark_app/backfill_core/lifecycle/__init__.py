"""The life of a Backfill on a cluster: one observation in, one decision out. No clock, no API, no thread.

    decide.decide         the one entry point
    observation, actions  input and output
    inputs                the observation classified: context, desired state, policy, termination, timestamps, backoff
    closing               end of a deleted job: whether it needs an attempt, and when that is given up
    steps                 one module for each situation of a Backfill; `step` contains shared parts
    status                conditions, their details, and the rule for writing a status

Nothing in this package calls an API, waits, writes or stores anything: the operator may die at any time, and all memory is in the status.
"""
