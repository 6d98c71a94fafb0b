"""Opens a source as its strategy requires, at a version or at offsets, and translates the errors of opening."""
