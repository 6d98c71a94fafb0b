"""Who makes the files of a table's log, and how: one writer of each version, on disks and on S3."""
