"""Limits for the requests of a spec: template fields, images, volumes, variables, Spark settings, targets.

The operator refuses the first finding. The command line reports all findings as warnings, without a cluster.
"""
