"""The life of a Backfill on a cluster: one look in, one decision out. No clock, no API, no thread.

    decide.decide        the one way in
    words                what goes in and what comes out
    sight                one look, sorted        rules, wanted    what the spec and the override say
    flight               an attempt in flight    launch, commands, endings
    ground               none in flight          backoff
    leaving              deleted, or over
    face, details        phase and conditions    turn             what the branches share
    pace                 when a status is worth a write

Not allowed inside: anything that asks, waits or writes, and any memory beside the status, because the operator may die
between two lines.
"""
