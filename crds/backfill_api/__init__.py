"""Pydantic models of spec, status and messages of a Backfill; imports no other package of the project."""
