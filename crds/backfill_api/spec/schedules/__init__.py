"""Times at which a job runs again. No clock: a time is an argument."""
