"""The executors of a session: their count, their losses, and another number of them while a job runs."""
