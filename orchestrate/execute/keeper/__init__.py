"""The only code that starts programs: a keeper process per run, and the client that talks to it.

The engine's side is `client`, with `facts` (what can be asked and known) and `starter`. The other
modules are the keeper's half, which uses the standard library and itself only. Read `protocol` and
`journal` first; then `keeper`, `watch` (one attempt) and `tree` (how all of it is ended).
"""
