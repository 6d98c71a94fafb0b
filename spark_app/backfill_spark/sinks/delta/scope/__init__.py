"""A job that replaces a part of an existing target (ADR 0048). The core decides; this package reads logs and commits."""
