"""Each defence that docs/security.md names, and how to take it away: then the test that shows it must fail."""
