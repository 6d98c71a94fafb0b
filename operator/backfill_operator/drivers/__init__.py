"""The connection to running drivers: their addresses, credentials and control API."""
