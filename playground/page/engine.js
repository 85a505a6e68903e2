// The cluster behind a page: a worker with Python and kavka. One message at a time, each with its answer.

import { language } from "./words.js";

export class Refused extends Error {}

export class Engine {
  #worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  #waiting = new Map();
  #number = 0;

  // `onStage(text, share)`: how far the loading is.
  constructor(onStage) {
    this.ready = new Promise((resolve, reject) => {
      this.#worker.onmessage = ({ data }) => {
        if (data.stage) {
          onStage(data.stage, data.share);
          if (data.share === 1) resolve();
        } else if (data.id === undefined) {
          reject(new Error(data.failed));
        } else {
          this.#answer(data);
        }
      };
      this.#worker.onerror = event => reject(new Error(event.message || "the worker could not be loaded"));
    });
  }

  #answer({ id, answer, failed }) {
    const { resolve, reject } = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (failed) return reject(new Error(failed));
    const value = JSON.parse(answer);
    if (value && value.refused) return reject(new Refused(value.refused));
    resolve(value);
  }

  call(op, fields = {}) {
    return new Promise((resolve, reject) => {
      this.#number += 1;
      this.#waiting.set(this.#number, { resolve, reject });
      this.#worker.postMessage({ id: this.#number, message: { op, language, ...fields } });
    });
  }
}
