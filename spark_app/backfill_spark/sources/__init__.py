"""Where rows come from: one folder a kind of source."""
