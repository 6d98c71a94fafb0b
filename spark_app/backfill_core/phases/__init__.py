"""Building blocks shared by strategies that copy and replay a table."""
