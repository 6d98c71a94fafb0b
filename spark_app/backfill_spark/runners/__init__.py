"""Execution of work: the context that the driver offers to a runner, and the runners, one module per kind of work."""
