"""Tables on S3: how their log is written."""
