"""Pace of a job: rate limit, sizes of splits and batches, time left, convergence, retention."""
