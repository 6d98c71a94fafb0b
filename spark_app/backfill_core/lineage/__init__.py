"""Events of OpenLineage about a run of a job: which event is due, and its content."""
