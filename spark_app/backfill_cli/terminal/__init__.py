"""Displays of a run: lines, a view, a recorded picture."""
