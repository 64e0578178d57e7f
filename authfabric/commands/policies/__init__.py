"""The commands about policies: check, test, diff, push, roll back, restore."""
