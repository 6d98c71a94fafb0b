"""The rules: values in, values out. No clock, no Spark, no threads, no files, no logging in here."""
