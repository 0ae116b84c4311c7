"""`python -m opgate_policy build`: makes a component of the policy in a folder."""

import sys

from .build import main

sys.exit(main(sys.argv[1:]))
