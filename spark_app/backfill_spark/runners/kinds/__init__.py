"""Runners: one module per kind of work, with a `RUNNER` each. Discovery finds the modules; no list names them."""
