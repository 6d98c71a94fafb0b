"""What people and tools see: conditions, their details, and when they are written."""
