"""The report of a run: one structure made from its state, written as HTML, Markdown or JSON."""
