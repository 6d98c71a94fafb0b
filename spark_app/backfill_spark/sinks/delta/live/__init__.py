"""A Delta table whose columns a job fills, while other writers use it."""
