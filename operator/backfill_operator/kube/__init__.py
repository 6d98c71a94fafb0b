"""The operator's own access to the API server, except for the watches.

    client, errors, resources   requests with a deadline, a size limit and safe retries; one error class for each reaction
    rate                        waiting, jitter and token buckets on the event loop's clock
    election                    one leader, by a Lease
    event_recorder              Kubernetes events, rate-limited and written in the background
    server_clock                the API server's time, for comparing it with its timestamps
    deletions                   the newest deleted objects, which older responses do not return

It does not import `informer` or `reconcile`. docs/adr/0032-kopf-watches.md explains why it exists in addition to kopf.
"""
