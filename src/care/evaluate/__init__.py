"""Measurements of trained encoders.

`measure`              how the embeddings of any model respond to augmentations
`evaluate_model`       everything the paper measures, and more
`compare_evaluations`  several evaluated models, side by side
`measure_transfer`     how good the features of any model are on other data sets
`measure_robustness`   how much accuracy a classifier on these features loses on corrupted images

Each folder answers one question with functions of tensors: `features` (how well do features classify?), `effects` (how
do augmentations act on embeddings?), `decoding` (what can be decoded from features?), `retrieval` (what is retrieved
after color jitter?), `transfer` (how good are features on other data sets?), `robustness` (and on corrupted images?),
`comparison` (which model is better?). The geometry is in `care.geometry`.
"""

from care.evaluate.comparison.compare import compare_evaluations
from care.evaluate.comparison.paired import paired_difference
from care.evaluate.decoding.decode import factor_r2, parameter_r2
from care.evaluate.effects.measure import measure, measure_model
from care.evaluate.effects.prediction import prediction_measures
from care.evaluate.embedder import Embedder
from care.evaluate.evaluation import Evaluation
from care.evaluate.evaluation_figures import figures
from care.evaluate.features.knn import knn_predict
from care.evaluate.features.logistic import logistic_regression
from care.evaluate.features.probe import IMAGENET100, PAPER, Protocol, linear_probe
from care.evaluate.features.tuned_logistic import tuned_logistic
from care.evaluate.features.whitening import whitening
from care.evaluate.model_evaluation import EvaluationSettings, EvaluationSetup, evaluate_model
from care.evaluate.retrieval.neighbors import retrieval_measures
from care.evaluate.robustness.measure import Robustness, measure_robustness
from care.evaluate.summary import summary
from care.evaluate.transfer.downstream import Downstream
from care.evaluate.transfer.measure import measure_transfer
from care.evaluate.transfer.result import Transfer

__all__ = [
    "IMAGENET100",
    "PAPER",
    "Downstream",
    "Embedder",
    "Evaluation",
    "EvaluationSettings",
    "EvaluationSetup",
    "Protocol",
    "Robustness",
    "Transfer",
    "compare_evaluations",
    "evaluate_model",
    "factor_r2",
    "figures",
    "knn_predict",
    "linear_probe",
    "logistic_regression",
    "measure",
    "measure_model",
    "measure_robustness",
    "measure_transfer",
    "paired_difference",
    "parameter_r2",
    "prediction_measures",
    "retrieval_measures",
    "summary",
    "tuned_logistic",
    "whitening",
]
