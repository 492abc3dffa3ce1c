"""How much does a classifier lose on corrupted images?"""
