"""The job as a state machine: barriers, commands, commits and work, for any strategy."""
