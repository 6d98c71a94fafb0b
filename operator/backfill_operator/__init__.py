"""The control plane: watches Backfills, launches their drivers, and reports in their status.

    app                           builds the parts and runs them
    informer                      a local copy of the cluster's Backfills and driver pods
    reconcile                     one Backfill at a time: observe, decide, execute
    drivers                       polls drivers and delivers commands
    manifests                     the objects of an attempt, as plain dictionaries
    kube                          the client of the API server
    health, logs, metrics, settings

Decisions are made in `backfill_core.lifecycle`; the resource is defined in `backfill_api`. Not allowed here: pyspark.
"""
