"""The API server: requests, errors, leader election, events."""
