"""The commands to begin with: up, ask, doctor, demo."""
