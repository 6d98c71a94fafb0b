"""Copies of files that are not decoded: facts of two tables, and bytes. No rows, no Spark job."""
