"""Event applications: one file made into keys, definitions, policies, profiles and the processes that serve them."""

from authfabric.applications.definitions import definitions
from authfabric.applications.document import Application, InvalidApplication, read_application
from authfabric.applications.document_schema import application_schema
from authfabric.applications.folder import ApplicationFolder, usual_folder
from authfabric.applications.hosting import hosted_application
from authfabric.applications.readiness import NotReady, until_ready
from authfabric.applications.rule_check import check_rules
from authfabric.applications.steps import Step, Steps
from authfabric.applications.store import ApplicationStore

__all__ = [
    "Application", "ApplicationFolder", "ApplicationStore", "InvalidApplication", "NotReady", "Step", "Steps",
    "application_schema", "check_rules", "definitions", "hosted_application", "read_application", "until_ready",
    "usual_folder",
]  # fmt: skip
