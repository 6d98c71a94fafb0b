"""What strategies that copy and replay a table share."""
