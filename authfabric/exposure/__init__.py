"""Exposure: who could have read an attribute of past events, who did, and what other policies would have prevented."""

from authfabric.exposure.access_finder import AccessFinder
from authfabric.exposure.counting import Counts, Tally, View, count
from authfabric.exposure.counting_tasks import Place, ShareTask, count_on_spark, split
from authfabric.exposure.evidence import Client, Evidence, Keys, Period, Question
from authfabric.exposure.gathering import Gathered, Sources, gather
from authfabric.exposure.possible_access import Form, PossibleAccess
from authfabric.exposure.report import BrokerExposure, ClientExposure, Exposure, find_exposure
from authfabric.exposure.trail import Trail

__all__ = [
    "AccessFinder",
    "BrokerExposure",
    "Client",
    "ClientExposure",
    "Counts",
    "Evidence",
    "Exposure",
    "Form",
    "Gathered",
    "Keys",
    "Period",
    "Place",
    "PossibleAccess",
    "Question",
    "ShareTask",
    "Sources",
    "Tally",
    "Trail",
    "View",
    "count",
    "count_on_spark",
    "find_exposure",
    "gather",
    "split",
]  # fmt: skip
