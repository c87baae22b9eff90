"""Checkpoints: what the files of a workspace were, kept in a store of our own (ADR 0022).

    store.py     opens a run's store, captures the workspace, compares and exports what was captured
    capture.py   takes a checkpoint; special.py finds what has no content to be kept
    restore.py   puts the files back, or everything as it was
    rooted.py    changes files without following links; blobs.py reads contents from the store
    copying.py   copies what the user's repository has already; inheriting.py what another store has
    program.py   starts git, with the settings that it is given and no others
    users.py     what can be read of the user's repository; nothing there is ever written
    model.py     what a checkpoint is and how it is written down

The store is a bare git repository in the run's folder, with an index of its own. The user's `.git`
is only read.
"""
