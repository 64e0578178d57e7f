"""The secondary decision point: answers recycled safely, exactly or by inference."""
