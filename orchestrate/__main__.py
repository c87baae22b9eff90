"""`python -m orchestrate` is the same command as `orchestrate`."""

from orchestrate.cli.main import main

if __name__ == "__main__":
    main()
