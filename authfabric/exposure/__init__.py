"""Exposure: who could have read an attribute of past events, who did, and what other policies would have prevented."""

from authfabric.exposure.chance import Chance, Form
from authfabric.exposure.chances import Chances
from authfabric.exposure.counting import Counts, Tally, View, count
from authfabric.exposure.evidence import Client, Evidence, Keys, Period, Question
from authfabric.exposure.gathering import Gathered, Sources, gather
from authfabric.exposure.report import BrokerExposure, ClientExposure, Exposure, find_exposure
from authfabric.exposure.shares import Place, ShareTask, count_on_spark, split
from authfabric.exposure.trail import Trail

__all__ = [
    "BrokerExposure", "Chance", "Chances", "Client", "ClientExposure", "Counts", "Evidence", "Exposure", "Form",
    "Gathered", "Keys", "Period", "Place", "Question", "ShareTask", "Sources", "Tally", "Trail", "View", "count",
    "count_on_spark", "find_exposure", "gather", "split",
]  # fmt: skip
