// A small client of the service: one user, his chats, and one of them as it goes on.

import { Service } from "/page/service.js";

const the = (id) => document.getElementById(id);
const state = { service: null, user: 0, chat: null, reading: null, seen: new Set(), older: null, moreChats: null };

the("who").addEventListener("submit", guarded(async () => {
  state.service = new Service(the("token").value);
  state.user = Number(the("user").value);
  leave();
  the("chats").replaceChildren();
  await listChats(null);
}));

the("new-chat").addEventListener("submit", guarded(async () => {
  const others = the("others").value.split(",").map((user) => Number(user.trim()));
  const chat = await entered().createChat([state.user, ...others]);
  the("others").value = "";
  addChat(chat);
  await open(chat);
}));

the("write").addEventListener("submit", guarded(async () => {
  const text = the("text").value;
  // One key for one message, however often it has to be sent.
  const message = await entered().post(state.chat.chat_id, state.user, text, crypto.randomUUID());
  the("text").value = "";
  show(message);
}));

the("more-chats").addEventListener("click", guarded(() => listChats(state.moreChats)));
the("older").addEventListener("click", guarded(readOlder));

/** Shows what went wrong, and takes it away with the next success. */
function guarded(act) {
  return async (event) => {
    event.preventDefault();
    try {
      await act();
      the("trouble").hidden = true;
    } catch (error) {
      complain(error);
    }
  };
}

function complain(error) {
  the("trouble").textContent = error.message;
  the("trouble").hidden = false;
}

function entered() {
  if (!state.service) throw new Error("enter with a token and a user first");
  return state.service;
}

async function listChats(cursor) {
  const page = await entered().chats(state.user, cursor);
  page.chats.forEach(addChat);
  state.moreChats = page.next;
  the("more-chats").hidden = !page.next;
}

function addChat(chat) {
  const button = document.createElement("button");
  button.dataset.chat = chat.chat_id;
  const others = chat.users.filter((user) => user !== state.user);
  const when = document.createElement("small");
  when.textContent = new Date(chat.ts * 1000).toLocaleString();
  button.append(`with ${others.join(", ")}`, when);
  button.addEventListener("click", guarded(() => open(chat)));
  const item = document.createElement("li");
  item.append(button);
  the("chats").append(item);
}

function leave() {
  state.reading?.abort();
  Object.assign(state, { chat: null, reading: null, seen: new Set(), older: null });
  the("messages").replaceChildren();
  the("write").hidden = true;
  the("older").hidden = true;
  the("title").textContent = "Choose a chat";
}

async function open(chat) {
  leave();
  state.chat = chat;
  state.reading = new AbortController();
  the("title").textContent = `Users ${chat.users.join(", ")}`;
  for (const button of the("chats").querySelectorAll("button")) {
    button.toggleAttribute("aria-current", button.dataset.chat === chat.chat_id);
  }
  the("write").hidden = false;
  the("text").focus();
  await readOlder();
  const newest = [...the("messages").children].at(-1)?.dataset.cursor ?? null;
  follow(chat, newest, state.reading.signal);
}

async function readOlder() {
  const chat = state.chat;
  const page = await entered().messages(chat.chat_id, state.user, state.older);
  if (chat !== state.chat) return;
  const first = the("messages").firstChild;
  page.messages.reverse().forEach((message) => show(message, first));
  state.older = page.next;
  the("older").hidden = !page.next;
}

/** Reads along, and comes back with the last place whenever the connection is lost. */
async function follow(chat, cursor, signal) {
  let last = cursor;
  while (!signal.aborted) {
    try {
      for await (const event of state.service.stream(chat.chat_id, state.user, last, signal)) {
        show(event.message);
        last = event.id;
        the("trouble").hidden = true;
      }
    } catch (error) {
      if (signal.aborted) return;
      complain(error);
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

function show(message, before = null) {
  if (message.chat_id !== state.chat?.chat_id || state.seen.has(message.message_id)) return;
  state.seen.add(message.message_id);
  const item = document.createElement("li");
  item.className = message.user_id === state.user ? "mine" : "";
  item.dataset.cursor = `${message.ts}-${message.message_id}`;
  const who = document.createElement("small");
  who.textContent = `${message.user_id}, ${new Date(message.ts * 1000).toLocaleTimeString()}`;
  item.append(who, message.text);
  const log = the("messages");
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  log.insertBefore(item, before ?? later(log, item.dataset.cursor));
  if (isAtEnd || item.className) log.scrollTop = log.scrollHeight;
}

/** A message may come a little after one that stands behind it. */
function later(log, cursor) {
  let place = null;
  for (let item = log.lastElementChild; item && item.dataset.cursor > cursor; item = item.previousElementSibling) {
    place = item;
  }
  return place;
}
