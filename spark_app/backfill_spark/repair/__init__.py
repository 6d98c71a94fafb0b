"""Repair of a target: finds the rows and files that differ from the source, replaces them in one commit, and verifies them."""
