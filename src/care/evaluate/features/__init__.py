"""How good are the features? Nearest neighbors, linear probes and logistic regression of the classes."""
