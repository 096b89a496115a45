"""Lets `python -m faintly` be the command, where scripts are not on the path."""

from faintly.cli import main

if __name__ == "__main__":
    main()
