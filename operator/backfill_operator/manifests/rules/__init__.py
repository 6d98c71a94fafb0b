"""What a spec may ask of pods and Spark; what is not listed is refused."""
