"""Requests to S3 that Hadoop's file system does not offer: copies inside the store, its checksums, unfinished uploads."""
