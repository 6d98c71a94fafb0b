"""Switch-over of readers and writers from a source to its copy: steps, stored marks, obstacles. Not allowed inside: reads and writes of a table."""
