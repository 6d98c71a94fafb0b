"""What a run looks like: lines, a view, a recorded picture."""
