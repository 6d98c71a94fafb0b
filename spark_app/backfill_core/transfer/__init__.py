"""Which files of a source get into a target without being decoded. No Spark, no file: facts in, a way out."""
