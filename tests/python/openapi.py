"""The HTTP door against its own description: schemathesis sends what `/openapi.json` allows, and what it forbids, to a server with a
token, and compares every answer with it. Bounded: a fixed seed and few examples. Ends with 0 if nothing was found.
"""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

TOKEN = "a token for tools"

# The first check that is relaxed, "schema-valid request rejected": whether a table has a sort key or a field, whether SQL stands behind it,
# that two parameters exclude each other (`from` and `after`, `key` and `scan`) and that a deadline of 3 ms passes is nothing that OpenAPI
# can say. What is allowed in general may be refused in particular; it must be refused by these codes, and never by a 5xx.
CONFIG = """
[checks]
positive_data_acceptance.expected-statuses = ["2xx", 304, 400, 401, 403, 404, 408, 409, 412, 413, 422]
# The checks' own list, and 408: a deadline of 0 has passed before anybody looks at what was sent.
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 408, 409, 415, 422, 428, 429, "5xx"]
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_served(port):
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1)
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not come up")


def main():
    examples = sys.argv[1] if len(sys.argv) > 1 else "2"
    binary = os.environ["SHARDINE_BIN"]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "schemathesis.toml").write_text(CONFIG)
        http, grpc = free_port(), free_port()
        up = [binary, "up", "--data", folder / "data", "--token", TOKEN, "--redis", "127.0.0.1:0"]
        up += ["--grpc", f"127.0.0.1:{grpc}", "--http", f"127.0.0.1:{http}"]
        server = subprocess.Popen(up, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until_served(http)
            create = [binary, "table", "create", "users", "--field", "name:string", "--field", "age:int64"]
            subprocess.run(create + ["--server", f"127.0.0.1:{grpc}", "--token", TOKEN], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            program = pathlib.Path(sys.executable).parent / "schemathesis"
            run = [program, "--config-file", folder / "schemathesis.toml", "run", f"http://127.0.0.1:{http}/openapi.json"]
            run += ["--header", f"Authorization: Bearer {TOKEN}", "--checks", "all", "--phases", "examples,coverage,fuzzing"]
            run += ["--max-examples", examples, "--seed", "20260101", "--generation-deterministic", "--continue-on-failure"]
            found = subprocess.run(run, cwd=folder, capture_output=True, text=True)
        finally:
            server.terminate()
            server.wait()
    if found.returncode != 0:
        print(found.stdout[-8000:], found.stderr[-2000:])
        raise SystemExit("schemathesis found something")
    print([line for line in found.stdout.splitlines() if "generated" in line][-1].strip())


main()
