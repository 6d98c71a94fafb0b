"""Commands of a switch-over: they perform the steps that the core decides on. Not allowed inside: decisions."""
