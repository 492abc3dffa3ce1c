"""What is retrieved? The neighbors of images before and after color jitter."""
