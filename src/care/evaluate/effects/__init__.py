"""How do augmentations act on embeddings? Rotations that fit them, their compositions, and predicted views."""
