"""Research on a prior-fitted network: a prior of synthetic tables, a network trained on them, and a judge on public tables."""
