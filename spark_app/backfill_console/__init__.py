"""The block of a job, for each screen: a frame of values, its lines, and the renderers of text and HTML.

`backfill run`, `backfill status --watch`, `kubectl backfill get -w`, the notebook and the page draw the same `JobFrame`.

Not allowed inside: rules (`backfill_core`), Spark, the cluster, and clocks. `rich` is imported by `terminal` only.
"""
