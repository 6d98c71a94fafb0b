"""Receipts: comparison of source and target by rows, sums and file digests."""
