"""Rules of the engine as pure functions of values. This package has no clock, Spark, threads, files or logging."""
