"""How well do features classify? Nearest neighbors, linear probes and logistic regression."""
