"""A network of our own that was trained on synthetic tables. Its weights come with tabapp."""
