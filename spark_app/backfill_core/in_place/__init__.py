"""Columns of a live table, filled file by file: files to do, rounds, conflicts, tables that are refused. Not allowed inside: reads and writes of a table."""
