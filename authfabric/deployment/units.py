"""Systemd units, confined to what a process needs: its own folders and the network."""

from __future__ import annotations

from authfabric.deployment.layout import Layout

_UNIT = """\
[Unit]
Description=authfabric {what}
After=network-online.target{after}
Wants=network-online.target
# However often it ends: what it waits for may take long to come.
StartLimitIntervalSec=0

[Service]
Type=exec
{environment}ExecStart={command}
{more}Restart=always
RestartSec=1s
TimeoutStopSec=20s
{folders}# It needs nothing of the machine but its own folders and the network.
User=authfabric
Group=authfabric
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
CapabilityBoundingSet=
UMask=0077

[Install]
WantedBy=multi-user.target
"""
_AFTER = " authfabric-nats.service"


def node_units(layout: Layout) -> dict[str, str]:
    """The units of a node that stands in a layout, by the names of their files."""
    return {
        "authfabric-nats.service": _nats(layout),
        "authfabric-domain.service": _process(
            layout,
            "access control service",
            f"domain serve {layout.config}/domain --health-listen ${{HEALTH}}",
            f"EnvironmentFile={layout.config}/domain.environment\n",
        ),
        "authfabric-pdp@.service": _process(
            layout,
            "PDP replica %i",
            f"pdp serve --name %H-pdp-%i --trust {layout.config}/trusted-keys --health-listen ${{HEALTH}}"
            f" --cache {layout.cache}/%i",
            f"EnvironmentFile={layout.config}/pdp-%i.environment\n",
        ),
    }


def _process(layout: Layout, what: str, words: str, environment: str = "") -> str:
    own = (
        f"Environment=XDG_STATE_HOME={layout.state} XDG_CACHE_HOME={layout.cache}\n"
        f"EnvironmentFile=-{layout.config}/environment\n{environment}"
    )
    command = f"{layout.programs}/authfabric {words}"
    return _UNIT.format(
        what=what, after=_AFTER, environment=own, command=command, more="", folders=_folders(layout)
    )


def _nats(layout: Layout) -> str:
    return _UNIT.format(
        what="NATS server",
        after="",
        environment="",
        command=f"{layout.programs}/nats-server -c {layout.config}/nats.conf",
        more="ExecReload=/bin/kill -HUP $MAINPID\nLimitNOFILE=65536\n",
        folders=_folders(layout),
    )


def _folders(layout: Layout) -> str:
    """Folders that systemd makes, where they are the usual ones; others it is told that may be written to."""
    usual = Layout(())
    if (layout.state, layout.cache) == (usual.state, usual.cache):
        return "StateDirectory=authfabric\nCacheDirectory=authfabric\n"
    return f"ReadWritePaths={layout.state} {layout.cache}\n"
