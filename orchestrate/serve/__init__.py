"""The console: a page, an HTTP interface and a protocol over the run folders (ADR 0018)."""
