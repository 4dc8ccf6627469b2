// What was said, as it comes: the user's words while they are being understood, Venus's words as they are heard.

import { t } from "./i18n.js";

const TOKENS = /[\u3400-\u9fff\uf900-\ufaff][\u3000-\u303f\uff00-\uffef]*|[^\s\u3400-\u9fff\uf900-\ufaff]+\s*|\s+/gu;
const KEPT = 200;

// Splits a piece of speech into words (or Chinese characters), each with the samples in which it is spoken.
export function tokens({ text, first_sample: first, end_sample: end }) {
  const perCharacter = (end - first) / Math.max(text.length, 1);
  return [...text.matchAll(TOKENS)].map((match) => ({
    text: match[0],
    middle: first + (match.index + match[0].length / 2) * perCharacter,
  }));
}

function label(element, key) {
  element.dataset.i18n = key;
  element.textContent = t(key);
}

class Utterance {
  #words = [];
  #heard = 0;
  #discarded = [];
  #over = false;

  constructor(bubble) {
    this.bubble = bubble;
  }

  add(piece) {
    for (const { text, middle } of tokens(piece)) {
      const element = document.createElement("span");
      element.textContent = text;
      this.bubble.words.append(element);
      this.#words.push({ element, middle });
    }
    this.#paint();
  }

  played({ state, first_sample: first, end_sample: end }) {
    if (state === "heard") this.#heard = Math.max(this.#heard, end);
    else if (state === "discarded") this.#discarded.push([first, end]);
    else return;
    this.#paint();
  }

  end({ heard_samples: heard, interrupted }) {
    this.#over = true;
    this.#heard = Math.max(this.#heard, heard);
    if (interrupted) this.bubble.tag("interrupted");
    this.#paint(interrupted);
  }

  #paint(interrupted = false) {
    for (const { element, middle } of this.#words) {
      const dropped = this.#discarded.some(([first, end]) => middle >= first && middle < end);
      const heard = middle < this.#heard || (this.#over && !interrupted && !dropped);
      const state = heard ? "heard" : dropped || this.#over ? "dropped" : "coming";
      if (element.dataset.state === state) continue;
      element.dataset.state = state;
      if (state === "dropped") element.dataset.i18nTitle = "unheard";
      else delete element.dataset.i18nTitle;
      element.title = state === "dropped" ? t("unheard") : "";
    }
  }
}

export class Captions {
  #root;
  #empty;
  #announcer;
  #user = new Map();
  #agent = new Map();
  #following = true;

  constructor(root, empty, announcer) {
    this.#root = root;
    root.addEventListener("scroll", () => {
      this.#following = root.scrollHeight - root.scrollTop - root.clientHeight < 60;
    });
    this.#empty = empty;
    this.#announcer = announcer;
  }

  clear() {
    this.#user.clear();
    this.#agent.clear();
    this.#root.replaceChildren(this.#empty);
    this.#announcer.replaceChildren();
    this.#empty.hidden = false;
    this.#following = true;
  }

  apply(event) {
    if (event.type === "user.text") this.#userText(event);
    else if (event.type === "agent.text") this.#utterance(event.utterance_id).add(event);
    else if (event.type === "playout") this.#agent.get(event.utterance_id)?.played(event);
    else if (event.type === "agent.utterance_ended") this.#utteranceEnded(event);
    else return;
    this.#tidy();
  }

  #userText(event) {
    const key = `${event.start_ms}${event.typed ? "t" : ""}`;
    let bubble = this.#user.get(key);
    if (!bubble) {
      if (!event.text.trim()) return;
      bubble = this.#bubble("user", "you");
      if (event.typed) bubble.tag("typed");
      this.#user.set(key, bubble);
    }
    bubble.words.textContent = event.text;
    bubble.root.classList.toggle("partial", !event.final);
    if (!event.final) return;
    // Kept by its start: a turn that was taken to be over may yet go on, and then has the same one.
    if (event.text.trim()) this.#announce(t("you"), event.text);
    else this.#forgetUser(key);
  }

  #forgetUser(key) {
    this.#user.get(key)?.root.remove();
    this.#user.delete(key);
  }

  #utterance(id) {
    let utterance = this.#agent.get(id);
    if (!utterance) {
      utterance = new Utterance(this.#bubble("agent", "venus"));
      this.#agent.set(id, utterance);
    }
    return utterance;
  }

  #utteranceEnded(event) {
    const utterance = this.#agent.get(event.utterance_id);
    if (!utterance) return;
    utterance.end(event);
    this.#agent.delete(event.utterance_id);
    if (event.heard_text) this.#announce(t("venus"), event.heard_text);
  }

  // `name` and tags are keys of i18n.js, and stay with the bubble for a page that changes its language.
  #bubble(side, name) {
    const root = document.createElement("article");
    root.className = `said ${side}`;
    const head = document.createElement("header");
    const who = document.createElement("b");
    label(who, name);
    const words = document.createElement("p");
    head.append(who);
    root.append(head, words);
    this.#root.append(root);
    this.#empty.hidden = true;
    return {
      root,
      words,
      tag(key) {
        const tag = document.createElement("small");
        label(tag, key);
        head.append(tag);
      },
    };
  }

  #announce(who, text) {
    const line = document.createElement("p");
    line.textContent = `${who}: ${text}`;
    this.#announcer.append(line);
    while (this.#announcer.childElementCount > 20) this.#announcer.firstElementChild.remove();
  }

  #tidy() {
    const said = this.#root.getElementsByClassName("said");
    while (said.length > KEPT) said[0].remove();
    while (this.#user.size > KEPT) this.#user.delete(this.#user.keys().next().value);
    // Whoever has scrolled up to read is left in peace.
    if (this.#following) this.#root.scrollTop = this.#root.scrollHeight;
  }
}
