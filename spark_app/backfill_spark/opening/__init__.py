"""Opening a source as a strategy asks for it: at a version, or at offsets; and what an opening meets, in our words."""
