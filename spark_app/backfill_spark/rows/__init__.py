"""DataFrame in, DataFrame out: transform, changes, verification."""
