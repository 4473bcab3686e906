"""Weights of pre-trained models: which are known, where they are kept, and how a file becomes one of them."""
