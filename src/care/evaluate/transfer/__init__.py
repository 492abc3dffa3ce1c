"""How good are frozen features on other data sets?"""
