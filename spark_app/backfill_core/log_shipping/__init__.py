"""The log of a source table, brought into a target as file actions: what several versions come to, and which files those are there."""
