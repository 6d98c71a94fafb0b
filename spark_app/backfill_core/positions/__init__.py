"""Progress of a job as values: sets of rows and other positions in a source."""
