"""`authfabric cap`: make keys, issue and pass on capabilities, look at them, verify them, take them back."""

from __future__ import annotations

import typer

from authfabric.commands.trust import cap_issue as granting
from authfabric.commands.trust import cap_revoke as revoking
from authfabric.commands.trust import cap_verify as proving

app = typer.Typer(
    help="Capabilities: signed certificates of who may do what, and chains of them.", no_args_is_help=True
)
app.command("keygen")(granting.keygen)
app.command("issue")(granting.issue)
app.command("delegate")(granting.delegate)
app.command("show")(proving.show)
app.command("verify")(proving.verify_)
app.command("chain")(proving.chain_)
app.command("revoke")(revoking.revoke)
