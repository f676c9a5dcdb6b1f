"""The health check of the image: ends with 0 if the address of the command line answers 200, else with 1 and why."""

import sys
import urllib.error
import urllib.request

try:
    # No proxy of the environment is asked for an address of this machine.
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=4).close()
except (OSError, urllib.error.URLError) as problem:
    sys.exit(f"{sys.argv[1]}: {problem}")
