"""One reconcile of one Backfill: observe, decide, execute, write the status.

workqueue                      which Backfill is next
reconciler                     collects the observation and asks `backfill_core.lifecycle` for the decision
actions, launcher              execute the decision's actions; create and delete the objects of an attempt
status_writer                  the only writer of Backfills
driver_slots, shared_targets   what depends on other Backfills
soft_state                     what may be lost at any moment
"""
