"""Copies of files that are not decoded, from facts of two tables and bytes. Copying reads no rows and runs no Spark job."""
