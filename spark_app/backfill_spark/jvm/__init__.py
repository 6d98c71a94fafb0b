"""The Java side of a session: its start, its errors and its end."""
