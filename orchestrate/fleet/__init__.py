"""Runs on other machines (ADR 0024): a worktree there, git as the carrier, the unchanged engine.

    settings.py   fleet.yaml: the server, the timing, the pools and their hosts
    connect.py    a client of the Temporal server (ADR 0025), or a sentence why not
    probe.py      why a server cannot be reached
    keys.py       the fleet's keys, and what they seal
    sealed.py     a run folder as it is published where keys are set
    codec.py      what the server holds, sealed
    doctor.py     what answers of what the settings name; server_doctor.py asks the server
    server_list.py  all runs of a namespace
    extra.py      whether the extra is installed; loads what needs it
    protocol.py   what client, workflow and worker say to each other
    workflow.py   the run on the server: sit, wait for a signal, sit again, end
    permit.py     a permit for a call of an agent on the server; permits.py gets and renews them
    inventory.py  what runs find on a machine, which `fleet doctor` asks its worker
    worker.py     the worker of a machine: slots.py, notes.py and pollers.py serve it
    hold.py       there: a sitting is announced, kept alive and reported
    engine.py     there: the process of a sitting, started by a keeper under a lease
    take.py       there: a seat as it was published last
    enqueue.py    here: the workspace pushed to the remote, and the workflow started
    server_run.py here: how a run on a server stands, and what can be said to it
    shadow.py     here: what such a run has published, for commands that look
    transport.py  git between machines
    seat.py       where a run works on a machine, and where its publications go
    host.py       on the machine: makes seats and starts runs in them
    ssh.py        reaches a machine with the user's `ssh`
    submit.py     here: the workspace as a commit, pushed to a machine, and the run started there
    publish.py    there: workspace and run folder as two references, after the steps that count
    stub.py       here: the folder that stands for a run elsewhere
    forward.py    here: a command about such a run is given to its machine
    away.py       here: what commands do with runs elsewhere; on_server.py with those on a server
    follow.py     here: keeps the shadows of a workspace up to date for the console
    list_runs.py  here: `runs --fleet`
    fetch_run.py  here: `fetch`
    spread.py     there: items of a run on other machines; server_items.py asks the server
    hosts.py      there: items on machines that `ssh` leads to; item_seat.py is what these do
    standing.py   how a run on a server stands
    seating.py    there: `seat`, which other machines call; sitting.py for a worker
    serve_pools.py  there: `worker`
    release.py    here: gives a run's seat back
    fetch.py      here: what a run has published, as a branch and a run folder

Nothing of it is imported unless a pool is named or a run is elsewhere, and what needs the extra
only by the commands that speak to a server.
"""
