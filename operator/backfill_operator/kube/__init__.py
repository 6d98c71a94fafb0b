"""The operator's own access to the API server: everything but the watches.

    client, errors, resources   requests with a deadline, a size limit and safe retries; one error class for each reaction
    rate                        waiting, jitter and token buckets on the event loop's clock
    election                    one leader, by a Lease
    event_recorder              Kubernetes events, few and never waited for
    server_clock                the API server's time, for comparing it with its timestamps
    shallow_json                a JSON parser that no nesting can stop

It imports neither `informer` nor `reconcile`. Why it exists beside kopf: docs/adr/0032-kopf-watches.md.
"""
