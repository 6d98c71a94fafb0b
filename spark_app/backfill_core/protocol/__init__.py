"""What passes between the event loop and the job: work, events, actions and the contract of a strategy; frozen values."""
