"""Data: what encoders are trained and measured on."""

from care.data.chains import Chains, generate_chains

__all__ = ["Chains", "generate_chains"]
