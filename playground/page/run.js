// One run as a page holds it: the moments that were shown, the clicks, and the way back. What has been seen is kept, so
// going back costs nothing; who acts in the past has the same choices replayed up to there, and the digests compared.

import { Refused } from "./engine.js";
import { say } from "./words.js";

const MAX_MOMENTS = 6000;
const MAX_EVENTS = 4000;
const REPLAY_MS = 1000;
const ROUTINE = new Set(["appended", "committed", "offsets moved", "follower asks", "produce came", "produce answered", "told: written", "read"]);

export const isRoutine = event => ROUTINE.has(event.kind);

export class Run extends EventTarget {
  #busy = Promise.resolve();

  constructor(engine, name, { keepRoutine = false } = {}) {
    super();
    this.engine = engine;
    this.name = name;
    this.keepRoutine = keepRoutine;
    this.moments = [];
    this.events = [];
    this.at = 0; // index of the moment that is shown
    this.note = "";
    this.others = []; // runs that get what this one gets
  }

  get now() { return this.moments[this.at]; }
  get isLatest() { return this.at === this.moments.length - 1; }
  get shownEvents() {
    const last = this.now.last;
    return this.events.filter(event => event.n <= last);
  }

  // Everything that asks the worker goes in order.
  #queue(work) {
    const next = this.#busy.then(work, work);
    this.#busy = next.catch(() => {});
    return next;
  }

  open(choices, clicks = [], toMs = 0) {
    return this.#queue(async () => {
      this.moments = [];
      this.events = [];
      this.at = 0;
      this.#take(await this.engine.call("open", { run: this.name, choices, clicks }));
      while (this.now.at_ms < toMs && !this.now.ended) {
        this.#take(await this.engine.call("advance", { run: this.name, to_ms: Math.min(toMs, this.now.at_ms + 100) }));
        if (this.moments.length % 20 === 0) this.#changed();
      }
      this.#changed();
    });
  }

  async advance(ms) {
    await Promise.all([this.#advance(ms), ...this.others.map(other => other.advance(ms))]);
  }

  #advance(ms) {
    return this.#queue(async () => {
      await this.#goToEnd();
      if (this.now.ended) return;
      this.#take(await this.engine.call("advance", { run: this.name, to_ms: this.now.at_ms + ms }));
      this.#changed();
    });
  }

  step(closely = false) {
    if (!this.now) return Promise.resolve(); // it is being opened
    if (!this.isLatest) {
      const last = this.now.last;
      const next = this.moments.findIndex((moment, index) => index > this.at && (closely ? moment.last > last : moment.news));
      this.show(next < 0 ? this.moments.length - 1 : next);
      return Promise.resolve();
    }
    return this.#queue(async () => {
      if (this.now.ended) return;
      const before = this.now.at_ms;
      this.#take(await this.engine.call("step", { run: this.name, closely }));
      this.#changed();
      for (const other of this.others) await other.advance(this.now.at_ms - before);
    });
  }

  stepBack(closely = false) {
    if (!this.now) return;
    let index = this.at - 1;
    while (index > 0 && !(closely ? this.moments[index].count : this.moments[index].news)) index -= 1;
    this.show(Math.max(index, 0));
  }

  show(index) {
    this.at = Math.max(0, Math.min(index, this.moments.length - 1));
    this.#changed();
    for (const other of this.others) other.showTime(this.now.at_ms);
  }

  // The last moment that is not later.
  showTime(ms) {
    const later = this.moments.findIndex(moment => moment.at_ms > ms);
    this.show(later < 0 ? this.moments.length - 1 : later - 1);
  }

  async click(what, target = "") {
    await Promise.all([this.#click(what, target), ...this.others.map(other => other.click(what, target))]);
  }

  #click(what, target) {
    return this.#queue(async () => {
      await this.#goToEnd();
      if (!this.isReplayNote) this.note = "";
      this.isReplayNote = false;
      try {
        this.#take(await this.engine.call("click", { run: this.name, what, target: String(target) }));
      } catch (refusal) {
        if (!(refusal instanceof Refused)) throw refusal;
        this.note = refusal.message;
      }
      this.#changed();
    });
  }

  trace() { return this.#queue(() => this.engine.call("trace", { run: this.name })); }

  // The past becomes the present: the same choices and clicks, played again up to the moment that is shown.
  async #goToEnd() {
    if (this.isLatest) return;
    const moment = this.now;
    this.moments.length = this.at + 1;
    this.events = this.events.filter(event => event.n <= moment.last);
    let picture = await this.engine.call("open", { run: this.name, choices: moment.choices, clicks: moment.clicks });
    while (picture.at_ms < moment.at_ms) {
      picture = await this.engine.call("advance", { run: this.name, to_ms: Math.min(moment.at_ms, picture.at_ms + REPLAY_MS) });
    }
    this.note = picture.digest === moment.digest
      ? say("Replayed to {time}: the same run, digest {digest}.", { time: seconds(moment.at_ms), digest: picture.digest.slice(0, 8) })
      : say("Replayed to {time}, and it came out differently: digest {digest}, not {before}.", { time: seconds(moment.at_ms), digest: picture.digest.slice(0, 8), before: moment.digest.slice(0, 8) });
    this.isReplayNote = true;
    this.replayedSame = picture.digest === moment.digest;
  }

  #take(picture) {
    const events = picture.events;
    delete picture.events;
    const before = this.moments.at(-1);
    picture.last = events.length ? events.at(-1).n : before ? before.last : 0;
    picture.count = events.length;
    picture.news = events.some(event => !isRoutine(event));
    this.events.push(...(this.keepRoutine ? events : events.filter(event => !isRoutine(event))));
    if (this.events.length > MAX_EVENTS) this.events.splice(0, this.events.length - MAX_EVENTS);
    this.moments.push(picture);
    if (this.moments.length > MAX_MOMENTS) this.moments.splice(0, this.moments.length - MAX_MOMENTS);
    this.at = this.moments.length - 1;
  }

  #changed() { this.dispatchEvent(new Event("change")); }
}

export const seconds = ms => `${(ms / 1000).toFixed(3)} s`;
