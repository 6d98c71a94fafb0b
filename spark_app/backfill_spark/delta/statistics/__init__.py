"""What the log says of the values in a file, in a form that compares as Spark does."""
