"""A split embedding whose features keep what AugSelf, EquiMod and E-SSL predict: all at once, each as it is alone."""

import pytest
import torch

import care
from care.losses import quarter_turns
from care.objective import total
from care.objective.build import view_plan
from care.train import prepare, train
from methods.peers import CLOUDS
from objective.small import build, drawn, noise, small
from train.small import small_config, small_data

PREDICTED = {"predicted": "color", "prediction_width": 16, "augself_weight": 0.05}
SPLIT = {"equivariance": "split", "equivariance_policy": "hue_only", "stop_gradient": True}
OF_PART = {"equivariance", "slice", "orbit"}
FROM_VIEWS = {"equimod_weight": 0.3, "augmentation_width": 8}
TURNED = {"essl_weight": 0.3, "turn_width": 16}


def reached(objective, terms, names):
    total({name: terms[name] for name in names}).backward(retain_graph=True)
    found = {name for name, p in objective.named_parameters() if p.grad is not None and p.grad.any()}
    objective.zero_grad()
    return found


@pytest.mark.parametrize("views", ["own", "composed"])
@pytest.mark.parametrize(
    ("chosen", "term", "weight"), [(PREDICTED, "augself_color", 0.05), (FROM_VIEWS, "equimod", 0.3)], ids=["w", "μ"]
)
def test_prediction_trains_the_backbone_and_the_rest_its_head_alone(views, chosen, term, weight):
    objective = build(**SPLIT, **chosen, equivariance_views=views)
    terms = objective(drawn(objective, noise()))
    assert terms.keys() == {"info_nce", term, *OF_PART}
    assert terms[term].weight == weight
    by_prediction = reached(objective, terms, [term])
    assert any(name.startswith("encoder.backbone") for name in by_prediction)
    assert not any(name.startswith(("encoder.head", "encoder.equivariant_head")) for name in by_prediction)
    assert all(name.startswith("encoder.equivariant_head") for name in reached(objective, terms, OF_PART))


@pytest.mark.parametrize(
    ("own", "chosen"),
    [({"equivariance": "augself"}, PREDICTED), ({"equivariance": "equimod", "equimod_from": "views"}, FROM_VIEWS)],
    ids=["augself", "equimod"],
)
def test_a_run_is_bit_for_bit_that_of_the_prediction_alone(tmp_path, own, chosen):
    """Its parameters are scaled by the method's policy, and not by that of the equivariant part.

    Muon rounds a matrix differently beside others of its shape; vectors are stepped by Adam.
    """
    alone = {"model": "test_resnet", "epochs": 1, "embedding_dim": 8, "optimizer": "muon", "head_width": 512}
    kept = {**alone, **SPLIT, **chosen, "embedding_dim": 24, "equivariant_dim": 16, "equivariant_layer": "layer2"}
    data = small_data(tmp_path / "data")
    for name, settings in (("alone", {**alone, **own, **chosen}), ("kept", kept)):
        train(prepare(small_config(data, **settings), tmp_path / name))
    ours, theirs = (care.load(tmp_path / name).state_dict() for name in ("kept", "alone"))
    assert [name for name, value in theirs.items() if not torch.equal(value, ours[name])] == []


@pytest.mark.parametrize(
    ("chosen", "squares"),
    [
        ({"equivariance": "equimod"}, True),
        ({"equivariance": "equimod", "equimod_from": "views"}, False),
        ({"equivariance": "augself"}, False),
        (SPLIT | PREDICTED, False),
        (SPLIT | FROM_VIEWS, False),
    ],
)
def test_differences_of_parameters_can_be_those_of_whole_pictures(chosen, squares):
    assert view_plan(small(**chosen), 32).squares == squares


def test_a_depth_is_that_of_a_head_of_its_own():
    with pytest.raises(ValueError, match="equivariant_depth needs a head of its own"):
        small(**{**SPLIT, "stop_gradient": False, "equivariant_depth": 3})
    assert len(build(**SPLIT, equivariant_depth=3).encoder.equivariant_head) == 7


def test_what_is_predicted_must_be_drawn_for_views_of_the_method():
    with pytest.raises(ValueError, match="the policy draws crop, and not color"):
        small(**SPLIT, **PREDICTED, policy="crop_only")
    with pytest.raises(ValueError, match="augself_weight needs the method's own views"):
        small(equivariance="split", **PREDICTED, equivariance_views="shared")
    with pytest.raises(ValueError, match="equimod_weight needs the method's own views"):
        small(equivariance="split", **FROM_VIEWS, equivariance_views="shared")
    with pytest.raises(ValueError, match="predicts views from views: leave out equimod_from"):
        small(equivariance="split", **FROM_VIEWS, equimod_from="image")
    with pytest.raises(ValueError, match="equimod_temperature needs an equimod_weight above 0"):
        small(equivariance="split", equimod_temperature=0.5)
    with pytest.raises(ValueError, match="predicted needs an augself_weight above 0"):
        small(**{**SPLIT, **PREDICTED, "augself_weight": 0.0})


@pytest.mark.parametrize("chosen", [{}, PREDICTED, {"stop_gradient": False}], ids=["alone", "AugSelf", "last features"])
def test_quarter_turns_are_told_apart_as_by_essl(chosen):
    """By the turned crops, the method's views and CARE's being what they are without them."""
    objective, without = (build(**{**SPLIT, **chosen, **more}) for more in (TURNED, {}))
    views = drawn(objective, noise())
    turned = [view for view, spec in zip(views, objective.plan.views, strict=True) if spec.turned]
    expected = without([view for view, spec in zip(views, objective.plan.views, strict=True) if not spec.turned])
    terms = objective(views)
    assert len(turned) == 1
    logits = objective.equivariance.essl.head(objective.encoder.features(turned[0].inputs))
    assert terms["essl"].weight == 0.3
    torch.testing.assert_close(terms["essl"].value, quarter_turns(logits))
    assert terms.keys() == {*expected, "essl"}
    # A stopped view passes the backbone as in evaluation, with running statistics, which follow the turned crops, too.
    stopped = OF_PART if chosen.get("stop_gradient", True) else set()
    for name in expected.keys() - stopped:
        torch.testing.assert_close(terms[name].value, expected[name].value)


def test_turns_train_the_backbone_and_no_head_of_the_encoder():
    objective = build(**SPLIT, **PREDICTED, **TURNED)
    before = {name: value.clone() for name, value in objective.encoder.head.state_dict().items()}
    terms = objective(drawn(objective, noise()))
    by_turns = reached(objective, terms, ["essl"])
    assert any(name.startswith("encoder.backbone") for name in by_turns)
    assert not any(name.startswith(("encoder.head", "encoder.equivariant_head")) for name in by_turns)
    counted = [name for name in before if name.endswith("num_batches_tracked")]
    assert {int(objective.encoder.head.state_dict()[name]) for name in counted} <= {1, 2}  # the method's views alone


def test_what_is_turned_must_be_a_picture():
    with pytest.raises(ValueError, match="essl turns images by quarters"):
        small(**{**CLOUDS, **SPLIT, **TURNED, "equivariance_policy": None})
    with pytest.raises(ValueError, match="turned_fraction needs an essl_weight above 0"):
        small(**SPLIT, turned_fraction=0.25)
