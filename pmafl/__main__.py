"""`python -m pmafl` is the `pmafl` program."""

from pmafl.cli import main

main()
