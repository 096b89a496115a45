"""python -m evaluation: what `make reproduce` calls."""

from evaluation.command import main

if __name__ == "__main__":
    main()
