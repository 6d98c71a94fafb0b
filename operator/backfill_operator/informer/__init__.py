"""What the cluster holds: watches, cache, relist, parsing."""
