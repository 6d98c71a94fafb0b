"""Removal of a target that its job created. The core decides; this package reads the log and deletes files."""
