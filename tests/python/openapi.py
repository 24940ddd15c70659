"""The HTTP door against its own description: schemathesis sends what `/openapi.json` allows, and what it forbids, to a server with a
token, and compares every answer with it. Bounded: a fixed seed and few examples. Ends with 0 if nothing was found.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

TOKEN = "a token for tools"

# One check is told more than it knows, "schema-valid request rejected": whether a table has a sort key or a field, whether SQL stands
# behind it, and that two parameters exclude each other (`from` and `after`, `key` and `scan`) is nothing that OpenAPI can say. What is
# allowed in general may be refused in particular; it must be refused by these codes, and never by a 5xx. All others are as they come.
CONFIG = """
[checks]
positive_data_acceptance.expected-statuses = ["2xx", 304, 400, 401, 403, 404, 409, 412, 413, 422]
"""
# A deadline of a millisecond passes, or does not, as the machine likes, and is answered by 408 or 504 whatever else was sent. Deadlines
# have tests of their own; here every request has time.
TIMEOUT = "shardine-timeout-ms"


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


def without_deadlines(port):
    """The document that the server serves, without the one parameter that makes answers a matter of time."""
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"})
    document = json.load(urllib.request.urlopen(asked))
    for operations in document["paths"].values():
        for operation in operations.values():
            if others := [each for each in operation.pop("parameters", []) if each["name"] != TIMEOUT]:
                operation["parameters"] = others
    return json.dumps(document)


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
            (folder / "openapi.json").write_text(without_deadlines(http))
            run = [program, "--config-file", folder / "schemathesis.toml", "run", folder / "openapi.json"]
            run += ["--url", f"http://127.0.0.1:{http}"]
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
