"""The context in which work runs."""
