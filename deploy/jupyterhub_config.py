"""A JupyterHub whose students measure on the class's GPU: on The Littlest JupyterHub, copy this file to
/opt/tljh/config/jupyterhub_config.d/brrr.py and run `sudo tljh-config reload hub`; elsewhere, load it in your own
jupyterhub_config.py with `load_subconfig("/path/to/this/file")`.

The hub runs `brrr class serve` as its service and hands it its own token; each student's server carries a token of the
hub's that may ask the service and nothing more. Admins of the hub are teachers.
"""

import os
import sys

c = get_config()  # noqa: F821  # JupyterHub gives it

PYTHON = os.environ.get("BRRR_PYTHON", "/opt/tljh/user/bin/python" if os.path.exists("/opt/tljh") else sys.executable)
PORT = os.environ.get("BRRR_PORT", "8642")
CACHE = os.environ.get("BRRR_CLASS_DB", "/var/lib/brrr/class.db")
OPTIONS = os.environ.get("BRRR_SERVE_OPTIONS", "").split()  # as "--gpus 0,1"

SERVE = [PYTHON, "-P", "-m", "brrr", "class", "serve"]
ASK = "access:services!service=brrr"

c.JupyterHub.services = [
    {
        "name": "brrr",
        "url": f"http://127.0.0.1:{PORT}",
        "display": False,
        "command": [*SERVE, "--hub", "brrr", "--port", PORT, "--cache", CACHE, *OPTIONS],
    }
]
c.JupyterHub.load_roles = [{"name": "user", "scopes": ["self", ASK]}]
c.Spawner.server_token_scopes = ["users:activity!user", "access:servers!server", ASK]
GATEWAY = f"http://127.0.0.1:{PORT}/services/brrr"
# A student's own server would open to the hub's token: brrr sends it to BRRR_HUB_GATEWAY and nowhere else.
c.Spawner.environment = {"BRRR_SOURCE": f"remote:{GATEWAY}", "BRRR_HUB_GATEWAY": GATEWAY}
