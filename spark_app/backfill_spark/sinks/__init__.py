"""Where rows go: one folder a kind of target."""
