"""The commands about events: types, brokers, rules, context, history and keys."""
