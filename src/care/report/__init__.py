"""Figures, drawn from plain values."""

from care.report.bars import bar_figure
from care.report.cosines import cosine_figure, positive_cosine_figure
from care.report.curves import curves_figure
from care.report.decoding import decoding_figure
from care.report.differences import differences_figure
from care.report.gallery import gallery
from care.report.neighbors import neighbors_figure
from care.report.orbits import orbit_figure
from care.report.responses import response_figure
from care.report.robustness import robustness_figure
from care.report.spectrum import spectrum_figure
from care.report.steered_gallery import GalleryRow, steered_gallery
from care.report.steering import steering_figure
from care.report.sweep import sweep_figure
from care.report.tradeoff import path_figure, tradeoff_figure
from care.report.training import training_figure
from care.report.transfer import transfer_figure
from care.report.wahba import wahba_figure

__all__ = [
    "GalleryRow",
    "bar_figure",
    "cosine_figure",
    "curves_figure",
    "decoding_figure",
    "differences_figure",
    "gallery",
    "neighbors_figure",
    "orbit_figure",
    "path_figure",
    "positive_cosine_figure",
    "response_figure",
    "robustness_figure",
    "spectrum_figure",
    "steered_gallery",
    "steering_figure",
    "sweep_figure",
    "tradeoff_figure",
    "training_figure",
    "transfer_figure",
    "wahba_figure",
]
