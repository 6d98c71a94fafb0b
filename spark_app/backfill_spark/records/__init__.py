"""Records of a source with offsets: bad records, the last record of each key, and counts per partition."""
