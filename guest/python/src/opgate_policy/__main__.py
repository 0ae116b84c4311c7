"""`python -m opgate_policy build`: builds the component of the policy in a directory."""

import sys

from .build import main

sys.exit(main(sys.argv[1:]))
