"""Interfaces that the driver requires of sources and sinks."""
