"""How far a job is, as values: sets of rows and other positions in a source."""
