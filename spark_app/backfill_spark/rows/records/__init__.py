"""Records of a source with offsets: which of them cannot be parsed, what the last one of a key says, and how many there are."""
