"""The commands about history: what is kept, who could have read it, and another key for it."""
