"""What people decide about a run from outside: each question answered once."""
