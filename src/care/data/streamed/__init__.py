"""Pictures that are not prepared: training reads the original files, and worker processes decode them."""
