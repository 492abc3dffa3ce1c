"""A trained run as a setup to evaluate."""

from pathlib import Path

import torch

from care.data import Samples, place
from care.evaluate import EvaluationSetup
from care.geometry import form_named
from care.objective import policy_for
from care.pretrained.load import load_pretrained
from care.train import Config


def run_setup(folder: Path, config: Config, samples: Samples, heldout: Samples, split: str = "test") -> EvaluationSetup:
    """The encoder of a run under the policy that its configuration measures it with, on the configuration's device.

    Classifiers are fitted to `samples`, and everything is measured on `heldout`, the split called `split`.
    """
    device, name = torch.device(config.device), config.measured_policy
    model = load_pretrained(str(folder)).to(device)
    return EvaluationSetup(
        model=model.name,
        embed=model.embed,
        train=place(samples, device),
        test=place(heldout, device),
        policy=policy_for(name, config.size),
        policy_name=name,
        form=form_named(config.form),
        device=device,
        module=model.encoder,
        split=split,
    )
