"""Limits for the requests of a spec: template fields, images, volumes, variables, Spark settings, targets."""
