"""The Java side of a session: how it starts, what it raises, and how it ends."""
