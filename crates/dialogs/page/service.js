// What the service can be asked. Failures are errors with the words of its problem.

export class Service {
  #token;

  constructor(token) {
    this.#token = token;
  }

  createChat(users) {
    return this.#ask("/chats", { method: "POST", body: JSON.stringify({ users }) });
  }

  chats(user, cursor) {
    return this.#ask(`/chats?${parameters({ user_id: user, cursor })}`);
  }

  messages(chat, user, cursor) {
    return this.#ask(`/chats/${chat}/messages?${parameters({ user_id: user, order: "desc", cursor })}`);
  }

  post(chat, user, text, key) {
    const body = JSON.stringify({ user_id: user, chat_id: chat, text });
    return this.#ask("/messages", { method: "POST", body, headers: { "Idempotency-Key": key } });
  }

  /** Messages as they come, each with the place to come back to. */
  async *stream(chat, user, cursor, signal) {
    const answer = await this.#fetch(`/chats/${chat}/stream?${parameters({ user_id: user, cursor })}`, { signal });
    let rest = "";
    for await (const piece of pieces(answer.body.pipeThrough(new TextDecoderStream()))) {
      const events = (rest + piece).split("\n\n");
      rest = events.pop();
      for (const event of events.map(parsed)) {
        if (event.event === "problem") throw new Error(JSON.parse(event.data).detail);
        if (event.event === "message") yield { id: event.id, message: JSON.parse(event.data) };
      }
    }
  }

  async #ask(path, options) {
    return (await this.#fetch(path, options)).json();
  }

  async #fetch(path, options = {}) {
    const headers = { ...options.headers, Authorization: `Bearer ${this.#token}` };
    const answer = await fetch(path, { ...options, headers });
    if (!answer.ok) throw new Error((await answer.json()).detail);
    return answer;
  }
}

function parameters(named) {
  return new URLSearchParams(Object.entries(named).filter(([, value]) => value !== null && value !== undefined));
}

/** Not every browser iterates streams by itself. */
async function* pieces(stream) {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.releaseLock();
  }
}

function parsed(text) {
  const event = {};
  for (const line of text.split("\n")) {
    const [, name, value] = line.match(/^(\w*): ?(.*)$/) ?? [];
    if (name) event[name] = value;
  }
  return event;
}
