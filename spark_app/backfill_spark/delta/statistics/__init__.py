"""Statistics of the values in a file, in a form that compares like Spark's values."""
