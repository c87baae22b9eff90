"""What a run remembers: durable files, the journal of events, run directories and locks."""
