"""Where the command begins, as `orchestrate` and as `python -m orchestrate`."""

import signal


def main() -> None:
    """Load the command line, and let Ctrl-C before it is there end us without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from orchestrate.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
