"""Choice of the copy mode of each source file. Pure functions, without Spark or files: facts in, a copy mode out."""
