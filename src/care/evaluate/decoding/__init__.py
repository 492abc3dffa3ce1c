"""What can be decoded from features? The drawn augmentation, and the factors of generated samples."""
