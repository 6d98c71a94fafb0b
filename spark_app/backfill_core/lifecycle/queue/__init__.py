"""The queue of a job: its Workload as observed, the reason to wait, and the quota that it holds. Pure values and rules."""
