"""How fast: rate limit, sizes of splits and batches, time left, convergence, retention."""
