"""What a decision reads: the classified observation, the desired state, the policy, the time."""
