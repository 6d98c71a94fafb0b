"""The API server, with the user's kubeconfig: reads, minimal writes and watches.

Not allowed inside: decisions about a Backfill, and output.
"""
