"""What the decision reads: the observation sorted, the desired state, the policy, the time."""
