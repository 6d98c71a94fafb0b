"""What a job does to rows: the transform of copied rows, or columns that are filled in place. Allowed imports: the spec's models."""
