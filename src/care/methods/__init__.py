"""Methods, one file each, with everything from the settings to the update after a step.

SimCLR, DCL, hard negatives, MoCo-v2 and v3, BYOL, SimSiam, Barlow Twins, VICReg and the paper's ablations train an
encoder by themselves; CARE, a split embedding, steering and others add equivariance to any of them.
`care.objective.registry` lists all names.
"""
