// An answer: all parts that came for one question, which is the values of all fields, and for no other.
import { stream } from "/asking.js";

// The same for the same values, in whatever order they were set.
export const keyOf = (values) => JSON.stringify(Object.entries(values).sort(([one], [other]) => (one < other ? -1 : 1)));

export class Answer {
  // heard(name, asked, message) is called after every message.
  constructor(view, values, heard) {
    this.view = view;
    this.values = Object.freeze({ ...values });
    this.key = keyOf(values);
    this.began = performance.now();
    this.heard = heard;
    this.asked = {}; // by name of what the server is asked: {key, parts, error, done, abort}
  }

  get parts() {
    return Object.fromEntries(Object.entries(this.asked).map(([name, each]) => [name, each.parts]));
  }

  get error() {
    return Object.values(this.asked).find((each) => each.error)?.error ?? "";
  }

  get done() {
    return Object.values(this.asked).every((each) => each.done);
  }

  // How long it took, once it is done.
  get seconds() {
    this.took ??= ((performance.now() - this.began) / 1000).toFixed(2);
    return this.took;
  }

  // Whether all is known that a card needs.
  has(card) {
    return card.needs.every((name) => !this.asked[name] || (this.asked[name].done && !this.asked[name].error));
  }

  draw(card, set) {
    return card.draw(this.values, this.parts, set);
  }

  // Asks what these values need and what the parts so far lead to; what others were asked word for word is taken over.
  ask(others) {
    let more = false;
    for (const [name, body] of Object.entries(this.view.questions(this.values, this.parts))) {
      if (!body || this.asked[name]) continue;
      const key = JSON.stringify(body);
      const same = others.map((other) => other.asked[name]).find((each) => each?.key === key && !each.error && !each.abort.signal.aborted);
      this.asked[name] = same ?? { key, parts: [], error: "", done: false, abort: new AbortController() };
      if (!same) follow(name, body, this.asked[name], this.heard);
      more = true;
    }
    if (more) this.ask(others);
  }

  // Stops what the next answer does not need.
  stop(next = null) {
    for (const [name, each] of Object.entries(this.asked)) if (!each.done && next?.asked[name] !== each) each.abort.abort();
  }
}

async function follow(name, body, asked, heard) {
  try {
    for await (const message of stream(name, body, asked.abort.signal)) {
      if (asked.abort.signal.aborted) return;
      if (message.part) asked.parts.push(message.part);
      if (message.error) asked.error = message.error;
      heard(name, asked, message);
    }
  } catch (fault) {
    asked.error = fault.message;
  }
  if (asked.abort.signal.aborted) return;
  asked.done = true;
  heard(name, asked, {});
}
