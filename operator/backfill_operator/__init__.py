"""The control plane: hands on the cluster, and nothing else.

Not allowed inside: pyspark, a rule of the protocol (those are in `backfill_core`), a word of the contract (those are
in `backfill_api`). Empty until the operator moves in.
"""
