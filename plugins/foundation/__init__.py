"""Networks that were trained once on synthetic tables and read a new table as context. Their weights are installed by the user."""
