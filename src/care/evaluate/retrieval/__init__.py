"""What is retrieved? The neighbors of images before and after their colors are jittered."""
