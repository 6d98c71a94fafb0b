"""Replica: the files of one pinned version as they are, then the source's log."""

NOT_OFFERED = "nothing reads the source's log yet"
