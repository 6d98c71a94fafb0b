"""What a Delta table says of itself, for sources and sinks alike."""
