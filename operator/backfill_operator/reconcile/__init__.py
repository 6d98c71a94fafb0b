"""One reconcile of one Backfill: observe, decide, execute, write the status.

workqueue                      the order of reconciles, with delays and backoff
reconciler                     collects the observation and gets the decision from `backfill_core.lifecycle`
actions, launcher              execute the decision's actions; create and delete the objects of an attempt
status_writer                  the only writer of Backfills
driver_slots, shared_targets   limits and warnings that depend on other Backfills
soft_state                     state that may be lost at any time
"""
