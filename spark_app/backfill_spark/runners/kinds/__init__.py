"""What does each kind of work: a module a kind, found by discovery, never listed; each holds `RUNNER`."""
