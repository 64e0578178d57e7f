"""The defences of the console: who sees anything, who changes anything, and what runs in a page."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, without

_TESTS = "tests/authfabric/console/test_console.py::"
_APP = "authfabric/console/app.py"
_VIEWERS = "authfabric/console/viewers.py"
_SIGN_IN = "tests/authfabric/console/test_sign_in.py::"
_OIDC = "authfabric/console/oidc.py"

CONSOLE: list[Mutation] = [
    without(
        f"{_TESTS}test_a_stranger_has_the_console_keep_no_more_than_a_token",
        _APP,
        "form = await _form(request, MAX_SIGN_IN_BYTES)",
        "form = await _form(request)",
    ),
    without(
        "tests/authfabric/test_logs.py::test_credentials_in_urls_are_left_out_of_messages_and_errors",
        "bus/runtime/logs.py",
        '_CREDENTIALS.sub("", text)',
        "text",
    ),
    without(
        f"{_TESTS}test_who_has_not_signed_in_sees_nothing",
        _APP,
        "            if viewer is None:\n",
        "            viewer = viewer or Viewer('anybody', operator=True)\n            if viewer is None:\n",
    ),
    without(
        f"{_TESTS}test_a_viewer_may_do_what_the_policies_say_and_no_more",
        _APP,
        "            if not await self._viewers.may(viewer, deed):\n",
        "            if False:\n",
    ),
    without(
        f"{_TESTS}test_a_token_without_the_right_to_view_lets_nobody_in",
        _VIEWERS,
        "        if not await self.may(viewer, Deed.VIEW):\n",
        "        if False:\n",
    ),
    without(
        f"{_TESTS}test_a_form_without_the_viewers_own_word_changes_nothing",
        _APP,
        'if request.method == "POST" and (await _form(request)).get("word") != viewer.form_word:',
        "if False:",
    ),
    without(
        f"{_TESTS}test_whoever_may_look_no_more_is_shown_nothing_more",
        "authfabric/console/live_stream.py",
        "            if not await viewers.may(viewer, Deed.VIEW):\n",
        "            if False:\n",
    ),
    without(
        f"{_TESTS}test_another_host_name_is_refused",
        _APP,
        "middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)],",
        "middleware=[],",
    ),
    without(
        f"{_TESTS}test_what_others_wrote_is_shown_as_text",
        "authfabric/console/pages.py",
        "autoescape=True",
        "autoescape=False",
    ),
    without(
        f"{_TESTS}test_every_answer_forbids_foreign_scripts_frames_and_caching",
        "authfabric/console/pages.py",
        "default-src 'none'; script-src 'self';",
        "default-src *; script-src 'unsafe-inline' *;",
    ),
    without(
        f"{_TESTS}test_the_cookie_is_out_of_reach_of_scripts_and_other_sites",
        _APP,
        "httponly=True, samesite=samesite",
        'httponly=False, samesite="lax"',
    ),
    without(
        f"{_TESTS}test_whoever_signs_out_is_out",
        _VIEWERS,
        "        self._sessions.pop(token_hash(session), None)\n",
        "        pass\n",
    ),
    without(
        f"{_SIGN_IN}test_a_token_that_is_not_for_this_console_signs_nobody_in",
        _OIDC,
        'if claims.get("azp", self.provider.client_id) != self.provider.client_id:',
        "if False:",
    ),
    without(
        f"{_SIGN_IN}test_a_token_that_answers_another_sign_in_signs_nobody_in",
        _OIDC,
        'if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), attempt.nonce.encode()):',
        "if False:",
    ),
    without(
        f"{_SIGN_IN}test_an_answer_counts_in_the_browser_that_was_sent_there",
        _OIDC,
        'if not hmac.compare_digest(given.get("state", "").encode(), attempt.state.encode()):',
        "if False:",
    ),
    without(
        f"{_SIGN_IN}test_nobody_becomes_the_operator_by_a_name",
        _VIEWERS,
        'return None if name in ("", OPERATOR) else await self._begin(Viewer(name, attributes=attributes))',
        "return await self._begin(Viewer(name, name == OPERATOR, attributes))",
    ),
]
