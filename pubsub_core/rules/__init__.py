"""Interaction control: rules that say who receives which events, in which form, and what context they depend on."""
