"""A Delta table as a source: a pinned version by exact files, and the versions after it."""
