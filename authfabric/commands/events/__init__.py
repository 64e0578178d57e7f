"""The commands about events: applications, types, rules, context and keys."""
