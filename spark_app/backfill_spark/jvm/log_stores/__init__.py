"""Log stores, which write the files of a table's log: exactly one writer of each version, on disks and on S3."""
