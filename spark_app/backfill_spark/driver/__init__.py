"""One attempt at one job: open, check, run, report."""
