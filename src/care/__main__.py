"""`python -m care`, the same as `care`."""

from care.cli import main

main()
