"""A Delta table as a target: staged files, MERGE, and the checks before the first write."""
