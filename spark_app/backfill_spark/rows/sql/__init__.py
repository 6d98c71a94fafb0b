"""Checks of SQL texts before Spark analyzes them; no table is read."""
