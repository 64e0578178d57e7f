"""The commands about deciding: PDPs, SDPs, the gateway, roles, searches and the audit trail."""
