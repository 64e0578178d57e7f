"""Django without a project: requests for views."""

from __future__ import annotations

import pytest


@pytest.fixture
def django_requests():
    import django
    from django.conf import settings as django_settings
    from django.test import RequestFactory

    if not django_settings.configured:
        django_settings.configure(
            ALLOWED_HOSTS=["testserver"],
            REST_FRAMEWORK={
                "EXCEPTION_HANDLER": "pep.integrations.rest_framework.problem_handler",
                "UNAUTHENTICATED_USER": None,
                "DEFAULT_AUTHENTICATION_CLASSES": [],
            },
        )
        django.setup()
    return RequestFactory()
