"""What the driver asks of a source and of a sink."""
