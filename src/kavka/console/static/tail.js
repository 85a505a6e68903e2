// The live tail of a topic: rows that the server made come in, the newest on top, a bounded number of them.
//
// Only while the page is seen: browsers have six connections for one console, whatever its tabs.
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
  let isAway = false;
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

  function tellAway(why) {
    if (why) {
      tell(state.dataset.away + " " + why);
    } else if (isAway) {
      tell(state.dataset.waiting);
    }
    isAway = Boolean(why);
  }

  let source = null;
  let wasHidden = false;

  function connect() {
    if (source || document.hidden) {
      return;
    }
    source = new EventSource(state.dataset.tail);
    const own = source;
    own.addEventListener("record", (event) => {
      tellAway("");
      const html = JSON.parse(event.data).html;
      if (isPaused) {
        waiting.push(html);
        waiting = waiting.slice(-KEPT_ROWS);
      } else {
        put(html);
      }
    });
    own.addEventListener("beat", (event) => tellAway(JSON.parse(event.data).away));
    own.addEventListener("left-out", (event) => {
      leftOut += JSON.parse(event.data).n;
      tell(state.dataset.leftOut.replace("{n}", leftOut.toLocaleString("en")));
    });
    own.addEventListener("gone", (event) => {
      tell(JSON.parse(event.data).why);
    });
    own.addEventListener("open", () => tell(wasHidden ? state.dataset.missed : state.dataset.waiting));
    own.addEventListener("error", () => {
      if (own === source) {
        tell(own.readyState === EventSource.CLOSED ? state.dataset.ended : state.dataset.lost);
      }
    });
  }

  function disconnect() {
    if (source) {
      source.close();
      source = null;
      wasHidden = true;
    }
  }

  connect();
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  window.addEventListener("pageshow", connect);
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.textContent = isPaused ? pause.dataset.goOn : pause.dataset.pause;
    if (!isPaused) {
      waiting.forEach(put);
      waiting = [];
    }
  });
  window.addEventListener("pagehide", disconnect);
})();
