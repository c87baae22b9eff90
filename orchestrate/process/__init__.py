"""The only code that starts programs: a keeper process per run, and the client that talks to it.

Two halves. The keeper's (`protocol`, `masking`, `tree`, `launch`, `warden`, `keeper`) uses the
standard library and itself only, because it runs from a frozen copy; `client` is the engine's side.
"""
