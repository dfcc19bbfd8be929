"""The figures of a public trace are checked where KVTOOL_TRACES names a folder that has it."""

import os

collect_ignore = [] if os.environ.get("KVTOOL_TRACES") else ["test_conversation.py"]
