"""Queues of Kueue: the Workloads of jobs, watched and written. No rules: `backfill_core.lifecycle.queue` decides."""
