"""A local copy of the Backfills and driver pods in the cluster, kept current by watches and repaired by lists.

    kopf_watches, watch_session   the two watches, and the HTTP session that they read through
    pace, discovery               how soon a watch is tried again; the answers to kopf's discovery
    relist                        lists everything at intervals and repairs what a watch missed
    executors                     looks at intervals for executor pods that wait
    cache                         the objects by key, with indexes by target and by active attempt
    compact, resting, pruned_fields, targets, parse   what the cache keeps of an object, and how the rules read it

Every change enqueues the key of its Backfill. Nothing here decides or writes: a reader that needs the current state asks
the API server. kopf supplies the streams, not the handlers: docs/adr/0032-kopf-watches.md.
"""
