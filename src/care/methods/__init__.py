"""Methods, a file each: all there is to it, from its settings to what it does after a step.

SimCLR, also with DCL or hard negatives, MoCo-v2 and v3, BYOL, SimSiam, Barlow Twins, VICReg and the paper's ablations
train an encoder; CARE, a split embedding and steering add equivariance to any of them. `care.objective.registry` has
their names.
"""
