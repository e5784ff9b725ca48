"""The lab's tests. test_cache, test_apt, test_cli and the like need no QEMU; test_machine boots
guests.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
