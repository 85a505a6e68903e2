// The live tail of a topic: rows that the server made come in, the newest on top, a bounded number of them.
"use strict";

(() => {
  const KEPT_ROWS = 200;
  const state = document.getElementById("tail-state");
  const rows = document.getElementById("records");
  const pause = document.getElementById("tail-pause");
  if (!state || !rows || !pause) {
    return;
  }
  let isPaused = false;
  let leftOut = 0;
  let waiting = [];

  function put(html) {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    rows.prepend(holder.content);
    while (rows.rows.length > KEPT_ROWS) {
      rows.rows[rows.rows.length - 1].remove();
    }
  }

  function tell(text) {
    state.textContent = text;
  }

  const source = new EventSource(state.dataset.tail);
  source.addEventListener("record", (event) => {
    const html = JSON.parse(event.data).html;
    if (isPaused) {
      waiting.push(html);
      waiting = waiting.slice(-KEPT_ROWS);
    } else {
      put(html);
    }
  });
  source.addEventListener("left-out", (event) => {
    leftOut += JSON.parse(event.data).n;
    tell(state.dataset.leftOut.replace("{n}", leftOut.toLocaleString("en")));
  });
  source.addEventListener("gone", (event) => tell(JSON.parse(event.data).why));
  source.addEventListener("open", () => tell(state.dataset.waiting));
  source.addEventListener("error", () => tell(state.dataset.lost));
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.textContent = isPaused ? pause.dataset.goOn : pause.dataset.pause;
    if (!isPaused) {
      waiting.forEach(put);
      waiting = [];
    }
  });
  window.addEventListener("pagehide", () => source.close());
})();
