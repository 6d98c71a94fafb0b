"""Inputs of a decision: the classified observation, the desired state, the policy, the time."""
