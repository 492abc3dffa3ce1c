"""The building blocks of a method: settings, views, loss, and the equivariance added to it."""

from care.objective.build import ObjectiveSettings, build_encoder, build_objective, policy_for, view_plan
from care.objective.choice import Choice, choose
from care.objective.method import Context, Equivariance, Method, Term, Terms, teacher_update, total
from care.objective.objective import Objective, encoder_cost, teacher_views_count, views_cost
from care.objective.settings import Settings, setting
from care.objective.views import EncodedView, View, ViewPlan, ViewSpec, plan_sharing_all_views, plan_sharing_views

__all__ = [
    "Choice",
    "Context",
    "EncodedView",
    "Equivariance",
    "Method",
    "Objective",
    "ObjectiveSettings",
    "Settings",
    "Term",
    "Terms",
    "View",
    "ViewPlan",
    "ViewSpec",
    "build_encoder",
    "build_objective",
    "choose",
    "encoder_cost",
    "plan_sharing_all_views",
    "plan_sharing_views",
    "policy_for",
    "setting",
    "teacher_update",
    "teacher_views_count",
    "total",
    "view_plan",
    "views_cost",
]
