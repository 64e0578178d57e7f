"""What a fabric is given on machines of its own: nodes, a folder with all that each needs, and their units."""

from authfabric.deployment.layout import (
    SETTINGS,
    InvalidLayout,
    Layout,
    Node,
    parse_nodes,
    read_layout,
    write_layout,
)
from authfabric.deployment.node_folder import OPERATOR_FILE, NodeFolders
from authfabric.deployment.units import node_units

__all__ = [
    "OPERATOR_FILE", "SETTINGS", "InvalidLayout", "Layout", "Node", "NodeFolders", "node_units", "parse_nodes",
    "read_layout", "write_layout",
]  # fmt: skip
