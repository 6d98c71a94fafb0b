"""Frozen values that the event loop and the job exchange: work, events, actions, and the contract of a strategy."""
