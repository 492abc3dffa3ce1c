"""Measurements of trained encoders.

`measure`         how the embeddings of any model respond to augmentations
`evaluate_model`  everything the paper measures, and what goes beside it
`compare_evaluations`  several evaluated models, side by side

The measures themselves are functions of tensors, a file each: `knn`, `probe`, `logistic`, `retrieval`, `sensitivity`,
`prediction`, `bootstrap`; those of geometry are in `care.geometry`.
"""

from care.evaluate.comparison.bootstrap import Difference, paired_difference
from care.evaluate.comparison.compare import Comparison, compare_evaluations
from care.evaluate.decoding.sensitivity import factor_sensitivity, parameter_sensitivity, ridge_r2
from care.evaluate.decoding.targets import factor_targets, parameter_targets
from care.evaluate.effects.effect import Response, Spread
from care.evaluate.effects.measure import Measurement, measure, measure_observed
from care.evaluate.effects.prediction import Prediction, prediction_measures
from care.evaluate.evaluation import Evaluation
from care.evaluate.features.knn import knn_predict
from care.evaluate.features.logistic import Logistic, logistic_regression
from care.evaluate.features.probe import IMAGENET100, PAPER, ProbeResult, Protocol, linear_probe
from care.evaluate.observer import Observer
from care.evaluate.pictures import figures
from care.evaluate.retrieval.neighbors import Retrieval, retrieval_measures
from care.evaluate.study import Settings, Study, evaluate_model
from care.evaluate.summary import summary

__all__ = [
    "IMAGENET100",
    "PAPER",
    "Comparison",
    "Difference",
    "Evaluation",
    "Logistic",
    "Measurement",
    "Observer",
    "Prediction",
    "ProbeResult",
    "Protocol",
    "Response",
    "Retrieval",
    "Settings",
    "Spread",
    "Study",
    "compare_evaluations",
    "evaluate_model",
    "factor_sensitivity",
    "factor_targets",
    "figures",
    "knn_predict",
    "linear_probe",
    "logistic_regression",
    "measure",
    "measure_observed",
    "paired_difference",
    "parameter_sensitivity",
    "parameter_targets",
    "prediction_measures",
    "retrieval_measures",
    "ridge_r2",
    "summary",
]
