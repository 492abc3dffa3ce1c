"""What is said before the first step, because it looks like a mistake although a training can begin."""

from collections.abc import Iterator

from care.augment import ImagePolicy
from care.data.gray import all_gray
from care.data.heldout import FEWEST_HELD_OUT
from care.data.samples import shortage
from care.objective import view_plan
from care.train.job import Job


def notes(job: Job) -> Iterator[str]:
    """A sentence for each: classes too small to hold samples out of, too few held-out samples, gray pictures."""
    if job.config.validation and (line := shortage(job.heldout, job.config.validation)):
        yield line
    if (count := len(job.heldout)) < FEWEST_HELD_OUT:
        more = "a larger `validation`" if job.config.validation else "more of them, or set `validation`"
        yield f"only {count} samples are held out: care evaluate needs {FEWEST_HELD_OUT}, so choose {more}"
    if _shifts_hue_alone(job) and all_gray(job.samples):
        policy = job.config.equivariance_policy
        yield (
            f"the pictures have no color, so hue shifts do not change them and {policy} teaches nothing: choose "
            "`keep` photometric, or leave out `keep` and `equivariance_policy`"
        )


def _shifts_hue_alone(job: Job) -> bool:
    """Whether the equivariance has views of its own, or some of them, that change nothing but hue and saturation."""
    plan = view_plan(job.config, job.micro_batch)
    policies = [plan.views[position].policy for position in set(plan.equivariance) - set(plan.method)]
    parts = (part for policy in policies for part in getattr(policy, "parts", (policy,)))
    return any(_changes_color_alone(part) for part in parts if isinstance(part, ImagePolicy))


def _changes_color_alone(policy: ImagePolicy) -> bool:
    """Whether all its changes are of hue and saturation, which gray pictures do not have."""
    families = set(policy.families())
    levels = policy.color > 0 and (policy.brightness > 0 or policy.contrast > 0)
    return bool(families) and families <= {"color", "gray"} and not levels
