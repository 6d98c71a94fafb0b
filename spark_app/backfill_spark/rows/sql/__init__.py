"""Checks of SQL expressions before Spark analyzes them; no table is read."""
