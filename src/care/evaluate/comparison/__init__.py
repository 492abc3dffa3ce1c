"""Which of several models is better? Quantities by name, paired differences, and their intervals."""
