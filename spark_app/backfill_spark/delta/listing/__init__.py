"""The files of one version: entries of the log, parsed, and stored without a heap that grows with them."""
