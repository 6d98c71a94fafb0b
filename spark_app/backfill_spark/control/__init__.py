"""Discovery, control and metrics of a running driver."""
