"""The page of `backfill ui` and `kubectl backfill ui`: jobs as HTML on loopback, with the actions of a user.

From top to bottom: `server/` (routes, access, streams), `views/` (values of a job in, strings of a page out), `ring`, and `seen` (the
values and the port of a source of jobs). `templates/` and `static/` hold HTML, styles and scripts.

Not allowed inside: Spark, the operator, clients of a driver or of an API server. The two command lines provide a source of jobs.
"""
