"""Files, commits and columns of a live Delta table."""
