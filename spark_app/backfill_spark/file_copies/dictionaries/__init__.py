"""Computed columns of files that store the values of their input once: computed for each distinct value."""
