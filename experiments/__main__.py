"""python -m experiments run|list|report"""

import sys

from experiments.framework.cli import main

sys.exit(main(sys.argv[1:]))
