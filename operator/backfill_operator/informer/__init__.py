"""A local copy of the Backfills and driver pods in the cluster, kept current by watches and repaired by lists.

    kopf_watches, watch_session   the two watches, and the HTTP session that they read through
    pace, discovery               the delay before a watch is retried; the answers to kopf's discovery
    relist                        lists all objects periodically and repairs changes that a watch missed
    executors                     lists waiting executor pods periodically
    cache                         the objects by key, with indexes by target and by active attempt
    compact, resting, pruned_fields, targets, parse   the cached form of an object, and its conversion for the rules

Every change enqueues the key of its Backfill. This package makes no decisions and writes nothing. A reader that needs the
current state reads it from the API server. kopf supplies the streams, not the handlers: docs/adr/0032-kopf-watches.md.
"""
