"""Arrangement backfill: the newest rows in the order of a key, with the changes of what is read merged in between."""

NOT_OFFERED = "no source reads in the order of a key yet"
