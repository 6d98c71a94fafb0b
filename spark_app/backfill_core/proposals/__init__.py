"""Proposals for a new manifest: facts of a source in, a commented manifest out. Each proposal has its reason."""
