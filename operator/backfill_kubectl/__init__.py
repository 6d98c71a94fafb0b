"""`kubectl backfill`: lists, watches and commands Backfills with the user's kubeconfig and rights.

From top to bottom: `commands/` (options and output), `cluster/` (the API server: reads, writes, watches), `drawing/` (text for
a terminal), `decisions/` (values in, values out).

Not allowed inside: Spark, the operator, and rights that the user does not have.
"""
