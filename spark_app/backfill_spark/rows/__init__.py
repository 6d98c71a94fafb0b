"""Functions from DataFrames to DataFrames: transform, changes, verification."""
