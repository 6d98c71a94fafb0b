"""Reads Delta tables for sources and sinks."""
