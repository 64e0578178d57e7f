"""The defences of the gateway: who calls, what each may ask about, and whose name is whose."""

from __future__ import annotations

from tests.mutations.mutation import Edit, Mutation, without

_CALLERS = "tests/pep/gateway/test_callers.py::"
_LIMITS = "tests/pep/gateway/test_limits.py::"
_FILE = "pep/gateway/callers.py"
_SPELLINGS = "tests/pep/integrations/test_spellings.py::"
_OWN = "tests/pep/integrations/test_unanswered_scopes.py::"
_QUERIES = "pep/asking/queries.py"
_BELIEVE_ANYBODY = (
    "    if authenticity is None:\n        return payload",
    "    if True:\n        return payload",
)

GATEWAY: list[Mutation] = [
    without(
        "tests/pep/integrations/test_guard_mistakes.py::"
        "test_a_connection_of_another_kind_than_can_be_asked_about_is_not_let_through",
        "pep/integrations/asgi.py",
        '        if scope["type"] == "lifespan":\n',
        '        if scope["type"] not in ("http", "websocket"):\n',
    ),
    without(
        f"{_LIMITS}test_what_cannot_be_asked_about_is_refused_and_no_fault_of_the_gateway",
        "pep/gateway/search.py",
        "        except OverflowError as error:\n",
        "        except KeyError as error:\n",
    ),
    without(
        f"{_LIMITS}test_a_body_is_no_request_although_another_protocol_is_offered",
        "pep/gateway/server.py",
        "        self.parser = _Parser(self)\n",
        "",
    ),
    without(
        f"{_CALLERS}test_whoever_is_not_known_is_not_answered",
        _FILE,
        "        if self._anonymous:\n",
        "        if True:\n",
    ),
    without(
        f"{_CALLERS}test_a_caller_asks_about_its_own_types_only",
        _FILE,
        "if caller.resources is not None and resource_type not in caller.resources:",
        "if False:",
    ),
    without(
        f"{_CALLERS}test_the_token_of_a_user_asks_about_that_user_only",
        _FILE,
        "if self.subject is not None and subject_id != self.subject:",
        "if False:",
    ),
    without(
        f"{_CALLERS}test_a_token_that_its_issuer_did_not_sign_for_here_and_now_is_refused",
        _FILE,
        '                options={"require": ["exp", "iss", "aud"]},\n',
        '                options={"verify_aud": False, "verify_iss": False},\n',
    ),
    without(
        f"{_CALLERS}test_nobody_passes_a_user_off_as_a_service",
        "pep/gateway/entity_types.py",
        "        if owner != (type_name, entity_id):\n",
        "        if False:\n",
    ),
    Mutation(
        "tests/pep/gateway/test_certification.py::"
        "test_discovery_names_the_configured_address_whatever_the_host_header_says",
        (Edit("pep/gateway/app.py", 'settings.base_url.rstrip("/")', '"http://" + request.headers["host"]'),),
    ),
    without(
        f"{_CALLERS}test_the_token_of_a_user_does_not_ask_about_a_service_of_that_id",
        "pep/gateway/settings.py",
        'if len(types) != 1 or "*" in types:',
        "if False:",
    ),
    without(
        f"{_CALLERS}test_a_key_that_its_issuer_has_taken_out_no_longer_counts",
        _FILE,
        "return since >= self.refresh or (kid",
        "return (kid",
    ),
    without(
        f"{_CALLERS}test_keys_are_read_from_no_address_without_https",
        _FILE,
        'if not newurl.startswith("https://"):',
        "if False:",
    ),
    without(
        f"{_LIMITS}test_a_stranger_sends_no_more_than_a_head_besides_a_body",
        "pep/gateway/server.py",
        "if self._framing > MAX_HEAD_BYTES and",
        "if False and",
    ),
    without(
        f"{_LIMITS}test_a_connection_on_which_no_request_arrives_is_ended",
        "pep/gateway/server.py",
        "call_later(self._receive, self.transport.abort)",
        "call_later(3600.0, self.transport.abort)",
    ),
    without(
        f"{_LIMITS}test_names_too_long_to_be_asked_about_are_not_remembered",
        "pep/gateway/entity_types.py",
        "if len(type_name) + len(entity_id) > MAX_LENGTH:",
        "if False:",
    ),
    without(
        f"{_LIMITS}test_nobody_is_redirected_to_where_the_host_header_says",
        "pep/gateway/app.py",
        "redirect_slashes = False",
        "redirect_slashes = True",
    ),
    without(
        "tests/pep/integrations/test_core.py::test_an_obligation_that_cannot_be_met_is_a_denial",
        "pep/obligations.py",
        "if registered is None or not (registered.before or result):",
        "if registered is None:\n                continue\n            if False:",
    ),
    without(
        "tests/pep/integrations/test_core.py::test_a_value_that_would_lead_elsewhere_is_refused",
        "pep/integrations/core.py",
        'if not value or (not whole and "/" in value):',
        "if not value:",
    ),
    without(
        f"{_OWN}test_what_a_tool_requires_by_itself_names_no_policy",
        "pep/integrations/fastmcp.py",
        "            if not isinstance(cause, OWN_REFUSALS):",
        "            if True:",
    ),
    without(
        "tests/pep/integrations/test_guard_mistakes.py::test_a_class_of_django_that_would_never_ask",
        "pep/integrations/django.py",
        "order.index(View) < order.index(GuardedView)",
        "False",
    ),
    without(
        "tests/pep/integrations/test_guard_mistakes.py::"
        "test_a_class_of_django_asks_about_the_object_that_it_or_its_urls_name",
        "pep/integrations/django.py",
        'inspect.getattr_static(self, "object")',
        'type(self).__dict__.get("object", self.object)',
    ),
    without(
        "tests/pep/gateway/test_watching.py::test_no_caller_takes_all_the_watches",
        "pep/gateway/watching.py",
        "if self._open[who] >= MAX_EACH:",
        "if False:",
    ),
    *(
        without(
            f"{_SPELLINGS}test_a_path_parameter_counts_as_the_route_reads_it[{path}]",
            "pep/integrations/starlette.py",
            "fixed.fill(path(request))",
            "fixed.fill(request.path_params)",
        )
        for path in ("/decorated/07", "/loading/07", "/depending/07")
    ),
    without(
        f"{_SPELLINGS}test_a_field_of_a_message_counts_as_the_handler_reads_it",
        "pep/integrations/faststream.py",
        "else _fields(message, taken)",
        "else _fields(message, {})",
    ),
    without(
        f"{_SPELLINGS}test_arguments_of_a_tool_count_as_the_tool_takes_them",
        "pep/integrations/fastmcp.py",
        "if not Draft202012Validator(schema).is_valid(arguments):",
        "if False:",
    ),
    without(
        f"{_SPELLINGS}test_arguments_of_a_tool_count_as_the_tool_takes_them",
        "pep/integrations/fastmcp.py",
        '{"arguments": defaults | arguments}',
        '{"arguments": arguments}',
    ),
    *(
        without(
            f"{_SPELLINGS}test_a_resource_counts_by_what_is_read_however_its_uri_is_spelled",
            "pep/integrations/fastmcp.py",
            old,
            new,
        )
        for old, new in (
            ("{unquote(path)}", "{path}"),
            ('if "%2f" in path.lower():', "if False:"),
            ('uri.partition("#")[0].partition("?")', 'uri.partition("#")[0].partition("\\0")'),
            ('uri.partition("#")[0]', "uri"),
        )
    ),
    without(
        f"{_SPELLINGS}test_templates_that_nobody_may_read_are_not_listed",
        "pep/integrations/fastmcp.py",
        "on_list_resource_templates",
        "on_list_nothing",
    ),
    without(
        "tests/pep/test_scope.py::TestOverTheBus::test_what_nobody_trusted_says_may_be_listed_is_not",
        _QUERIES,
        *_BELIEVE_ANYBODY,
    ),
    without(
        "tests/pep/asking/test_queries.py::test_an_explanation_of_somebody_nobody_trusts_counts_for_nothing",
        _QUERIES,
        *_BELIEVE_ANYBODY,
    ),
    without(
        "tests/pep/asking/test_queries.py::test_what_somebody_nobody_trusts_says_was_found_is_not",
        _QUERIES,
        *_BELIEVE_ANYBODY,
    ),
    *(
        without(
            f"tests/pep/asking/test_queries.py::test_a_replica_is_not_believed_about_what_it_may_not_decide[{query}]",
            _QUERIES,
            "    if not counts(opened[1]):",
            "    if False:",
        )
        for query in ("explain", "search objects", "search subjects", "scope")
    ),
    without(
        "tests/pep/asking/test_queries.py::test_a_beginning_of_names_is_not_a_folder",
        "authz/authority/deciders.py",
        'folder = beginning[: beginning.rfind("/") + 1]',
        'folder = beginning.rstrip("/") + "/"',
    ),
    without(
        "tests/pep/test_scope.py::test_a_scope_by_older_policies_than_are_known_is_refused",
        "pep/enforcer.py",
        "if scope.epoch < known:",
        "if False:",
    ),
    without(
        "tests/pep/test_local.py::test_who_may_not_see_policies_is_told_the_answer_alone",
        "pep/enforcer.py",
        "if viewer is not None and not (await self.check(viewer, request.object, EXPLAIN)).allowed:",
        "if False:",
    ),
    without(
        f"{_LIMITS}test_defaults_that_stand_for_a_thousand_evaluations_are_counted_as_often",
        "pep/gateway/evaluation.py",
        "if batch.written_out > MAX_WRITTEN_OUT:",
        "if False:",
    ),
]
