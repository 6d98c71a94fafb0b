"""End of a deleted job: what becomes of its tables. Not allowed inside: the spec that contains it."""
