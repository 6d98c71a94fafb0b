"""The words: what a Backfill says and what is said about it. Pydantic models and nothing else; imports nothing of ours."""
