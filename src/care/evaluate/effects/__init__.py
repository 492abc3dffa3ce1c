"""How do augmentations act on embeddings? Rotations, their compositions, and what they predict."""
