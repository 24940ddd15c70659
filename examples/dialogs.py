"""The core of a chat service on Shardine: writes by redis-py, pages over HTTP.

    shardine up
    python examples/dialogs.py 127.0.0.1:7379 127.0.0.1:7480

`shardine dialogs` (docs/dialogs.md) is the whole of it; the tables are the same. What is left out here: the token, repeated
requests, streams, and whoever finishes a chat whose process has died.
"""

import itertools
import json
import sys
import time
import urllib.error
import urllib.request

import redis

TABLES = [
    {"name": "chats", "fields": [("users", "string"), ("ts", "int64")], "sort": []},
    {"name": "messages", "fields": [("aid", "int64"), ("txt", "string")], "sort": [("ts", "int64"), ("id", "string")]},
    {"name": "user_chats", "fields": [("ts", "int64")], "sort": [("cid", "string")]},
    {"name": "dialog_processes", "fields": [("last", "int64")], "sort": []},
]


class Dialogs:
    def __init__(self, redis_address: str, http_address: str) -> None:
        host, port = redis_address.rsplit(":", 1)
        self.redis = redis.Redis(host=host, port=int(port), decode_responses=True)
        self.http = f"http://{http_address}"
        for table in TABLES:
            self.make(table)
        # A number that no other process has: it is part of every id.
        self.process = self.redis.hincrby("dialog_processes:all", "last", 1)
        self.count = itertools.count()

    def make(self, table: dict) -> None:
        typed = lambda parts: [{"name": name, "type": kind} for name, kind in parts]
        body = {"name": table["name"], "fields": typed(table["fields"]), "sort": typed(table["sort"])}
        try:
            self.ask("/v1/tables", body)
        except urllib.error.HTTPError as refused:
            if refused.code != 409:  # it is there already
                raise

    def ask(self, path: str, body: dict | None = None) -> dict:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.http + path, data=data), timeout=10) as answer:
            return json.load(answer)

    def stamp(self) -> tuple[int, str]:
        """A second, and an id of 24 hex digits that begins with it."""
        ts = int(time.time())
        return ts, f"{ts:08x}{self.process:010x}{next(self.count) & 0xffffff:06x}"

    def create_chat(self, users: list[int]) -> str:
        if len(users) < 2 or len(set(users)) < len(users) or min(users) < 1:
            raise ValueError("a chat has two users at least, all different, from 1")
        ts, chat = self.stamp()
        # Lists first: whoever reads one leaves out what is no chat yet. The last write makes it one, for all at once.
        for user in users:
            self.redis.hset(f"user_chats:{user}@{chat}", "ts", ts)
        self.redis.hset(f"chats:{chat}", mapping={"users": ",".join(map(str, users)), "ts": ts})
        return chat

    def members(self, chat: str) -> list[int]:
        users = self.redis.hget(f"chats:{chat}", "users")
        return [int(user) for user in users.split(",")] if users else []

    def check(self, chat: str, user: int) -> None:
        if user not in self.members(chat):
            raise PermissionError(f"user {user} is not in chat {chat}")

    def post(self, chat: str, user: int, text: str) -> str:
        self.check(chat, user)
        ts, message = self.stamp()
        self.redis.hset(f"messages:{chat}@{ts},{message}", mapping={"aid": user, "txt": text})
        return message

    def chats_of(self, user: int) -> list[str]:
        rows = self.rows("user_chats", str(user))
        return [row["sort"][0] for row in rows if self.members(row["sort"][0])]

    def messages(self, chat: str, user: int, order: str = "asc", limit: int = 50) -> list[tuple[int, str]]:
        """One shard is asked, and gives them in their order."""
        self.check(chat, user)
        rows = self.rows("messages", chat, order, limit)
        return [(row["fields"]["aid"], row["fields"]["txt"]) for row in rows]

    def rows(self, table: str, key: str, order: str = "asc", limit: int = 1000) -> list[dict]:
        rows, cursor = [], ""
        while True:
            page = self.ask(f"/v1/tables/{table}/partitions/{key}?order={order}&limit={limit - len(rows)}{cursor}")
            rows += page["records"]
            if not page["next"] or len(rows) >= limit:
                return rows
            cursor = f"&cursor={page['next']}"


if __name__ == "__main__":
    dialogs = Dialogs(*sys.argv[1:3])
    chat = dialogs.create_chat([1, 2])
    for number in range(3):
        dialogs.post(chat, 1 + number % 2, f"message {number}")
    print(chat, dialogs.chats_of(2)[-1] == chat, dialogs.messages(chat, 2), dialogs.messages(chat, 1, "desc", 1))
