// Keeps an open page up to date: listens for snapshots, gets the page again, and puts in what changed.
//
// What a reader has in hand stays: focus, text selection, what is typed, scroll, opened <details>. Elements that may be
// replaced have an id and `data-live`. A lost connection is said in words, with the age of what is shown. Without this
// script every page works, and stands still.
"use strict";

(() => {
  const LOST_AFTER_MS = 12000; // the server says something at least every 5 s
  const RETRY_MS = 2000;
  const WANT_EVERY_MS = 5000; // live-worker.js forgets a page that says nothing for 30 s
  const body = document.body;
  const link = document.getElementById("link");
  const skew = Number(document.documentElement.dataset.now) - Date.now();
  const chinese = document.documentElement.lang.startsWith("zh");
  let heardAt = Date.now();
  let changedAt = Date.now();
  let isLost = false;
  let isAsking = false;
  let asksAgain = false;
  let failures = 0;

  // -- the reader's time zone, for the next page

  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone) {
    document.cookie = "kavka_zone=" + encodeURIComponent(zone) + ";path=/;max-age=31536000;samesite=lax";
  }

  // -- ages

  const UNITS = [
    [2 * 86400000, 86400000, "days", "天"],
    [2 * 3600000, 3600000, "h", "小时"],
    [120000, 60000, "min", "分钟"],
    [1000, 1000, "s", "秒"],
  ];

  function duration(ms) {
    for (const [limit, unit, english, zh] of UNITS) {
      if (ms >= limit) {
        return Math.floor(ms / unit).toLocaleString("en") + " " + (chinese ? zh : english);
      }
    }
    return "";
  }

  function age(ms) {
    const said = duration(ms);
    if (!said) {
      return chinese ? "刚刚" : "just now";
    }
    return chinese ? said + "前" : said + " ago";
  }

  function tick() {
    const now = Date.now() + skew;
    for (const element of document.querySelectorAll(".age[data-at]")) {
      const passed = now - Number(element.dataset.at);
      if (passed > -5000) {
        const text = age(passed);
        if (element.textContent !== text) {
          element.textContent = text;
        }
      }
    }
    tell();
  }

  // -- is what is shown still true?

  function tell() {
    if (!link || !body.dataset.liveFrom || document.hidden) {
      return;
    }
    const silent = Date.now() - heardAt;
    isLost = silent > LOST_AFTER_MS || failures > 0;
    const text = isLost
      ? link.dataset.lost.replace("{t}", duration(Date.now() - changedAt) || "0 s")
      : link.dataset.fine;
    if (link.textContent !== text) {
      link.textContent = text;
    }
    link.classList.toggle("lost", isLost);
    body.classList.toggle("stale", isLost);
  }

  // -- what changed

  function isInHand(element) {
    // A form field in which somebody types, or a selection, is not pulled away.
    const active = document.activeElement;
    if (active && element.contains(active) && active.matches("input, select, textarea")) {
      return true;
    }
    const selection = window.getSelection();
    return Boolean(
      selection && !selection.isCollapsed && selection.rangeCount && selection.getRangeAt(0).intersectsNode(element)
    );
  }

  function key(element) {
    // How an element is found again in its replacement: by id, by address, or by its place among its like.
    if (element.id) {
      return "#" + CSS.escape(element.id);
    }
    if (element.getAttribute("href")) {
      return '[href="' + CSS.escape(element.getAttribute("href")) + '"]';
    }
    return "";
  }

  function opened(element) {
    const all = [...element.querySelectorAll("details")];
    return all.map((each, index) => [each.id || "at " + index, each.open]);
  }

  function replace(old, fresh) {
    fresh.querySelectorAll("script").forEach((each) => each.remove());
    if (isInHand(old) || normal(old) === normal(fresh)) {
      return;
    }
    const wasOpen = new Map(opened(old));
    [...fresh.querySelectorAll("details")].forEach((each, index) => {
      const open = wasOpen.get(each.id || "at " + index);
      if (open !== undefined) {
        each.open = open;
      }
    });
    if (old.matches("details")) {
      fresh.open = old.open;
    }
    const scrolls = [...old.querySelectorAll("[data-scroll], .table")].map((each) => [each.scrollLeft, each.scrollTop]);
    const active = document.activeElement;
    const held = active && active !== body && old.contains(active) ? active : null;
    const heldKey = held ? key(held) : "";
    const like = held ? [...old.querySelectorAll(held.tagName)].indexOf(held) : -1;
    const top = [window.scrollX, window.scrollY];
    old.replaceWith(fresh);
    [...fresh.querySelectorAll("[data-scroll], .table")].forEach((each, index) => {
      if (scrolls[index]) {
        [each.scrollLeft, each.scrollTop] = scrolls[index];
      }
    });
    if (held) {
      const again = (heldKey && fresh.querySelector(heldKey)) || fresh.querySelectorAll(held.tagName)[like];
      if (again) {
        again.focus({ preventScroll: true });
      }
    }
    window.scrollTo(...top);
  }

  function normal(element) {
    // Ages, and whether a <details> is open, are the page's own: they are no change.
    const copy = element.cloneNode(true);
    copy.querySelectorAll(".age").forEach((each) => (each.textContent = ""));
    copy.querySelectorAll("details").forEach((each) => each.removeAttribute("open"));
    copy.removeAttribute("open");
    return copy.outerHTML;
  }

  function take(page) {
    for (const fresh of page.querySelectorAll("[data-live][id]")) {
      const old = document.getElementById(fresh.id);
      if (old) {
        replace(old, document.importNode(fresh, true));
      }
    }
    if (page.title && document.title !== page.title) {
      document.title = page.title;
    }
    tick();
  }

  async function ask() {
    if (isAsking) {
      asksAgain = true;
      return;
    }
    isAsking = true;
    try {
      do {
        asksAgain = false;
        const answer = await fetch(location.href, { headers: { "X-Kavka-Live": "1" }, credentials: "same-origin" });
        if (answer.redirected && new URL(answer.url).pathname !== location.pathname) {
          location.assign(answer.url); // the session is over: to the login
          return;
        }
        const isPage = (answer.headers.get("content-type") || "").startsWith("text/html");
        if (!isPage) {
          throw new Error("no page: " + answer.status);
        }
        take(new DOMParser().parseFromString(await answer.text(), "text/html"));
        failures = 0;
        changedAt = Date.now();
      } while (asksAgain);
    } catch {
      failures += 1;
    } finally {
      isAsking = false;
      tell();
    }
  }

  // -- the connection

  let number = null;
  let stop = null; // ends what is listened to; null where nothing is

  function heard(data) {
    heardAt = Date.now();
    let told = {};
    try {
      told = JSON.parse(data);
    } catch {
      told = {};
    }
    if (failures > 0 || told.number === undefined || told.number !== number) {
      number = told.number;
      if (!document.hidden) {
        ask();
      }
    } else {
      changedAt = Date.now();
    }
    tell();
  }

  function lost(isClosed) {
    failures += 1;
    tell();
    if (isClosed) {
      const own = stop;
      setTimeout(() => own === stop && connect(), RETRY_MS);
    }
  }

  function listenAlone(address) {
    const source = new EventSource(address);
    let isOver = false;
    for (const name of ["snapshot", "beat"]) {
      source.addEventListener(name, (event) => heard(event.data));
    }
    source.addEventListener("error", () => isOver || lost(source.readyState === EventSource.CLOSED));
    return () => {
      isOver = true;
      source.close();
    };
  }

  function listenTogether(address) {
    // All pages of this browser have one stream: live-worker.js.
    const worker = new SharedWorker(body.dataset.liveWorker, "kavka live");
    const port = worker.port;
    let isOver = false;
    port.addEventListener("message", (event) => {
      if (isOver) {
        return;
      }
      if (event.data.name === "error") {
        lost(event.data.isClosed);
      } else {
        heard(event.data.data);
      }
    });
    port.start();
    const want = () => port.postMessage({ wants: address });
    want();
    const again = setInterval(want, WANT_EVERY_MS);
    const end = () => {
      isOver = true;
      clearInterval(again);
      port.postMessage({ leaves: true });
      port.close();
    };
    worker.addEventListener("error", () => {
      // The script could not be had.
      if (!isOver) {
        end();
        stop = listenAlone(address);
      }
    });
    return end;
  }

  function disconnect() {
    if (stop) {
      stop();
      stop = null;
    }
  }

  function connect() {
    // A page that nobody sees has no connection: browsers have six for one console, whatever its tabs.
    disconnect();
    if (document.hidden) {
      return;
    }
    heardAt = Date.now();
    const address = new URL(body.dataset.liveFrom, location.href).href;
    stop = window.SharedWorker ? listenTogether(address) : listenAlone(address);
  }

  if (body.dataset.liveFrom) {
    connect();
    document.addEventListener("visibilitychange", () => {
      connect();
      if (!document.hidden) {
        ask();
      }
    });
    window.addEventListener("pagehide", disconnect);
    window.addEventListener("pageshow", (event) => event.persisted && connect());
  }
  setInterval(tick, 1000);
  tick();

  // -- small conveniences

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      document.querySelectorAll("details.switcher[open]").forEach((each) => {
        each.open = false;
        each.querySelector("summary").focus();
      });
    }
    if (event.key === "/" && !event.target.matches("input, textarea, select") && !event.ctrlKey && !event.metaKey) {
      const search = document.querySelector('input[type="search"]');
      if (search) {
        event.preventDefault();
        search.focus();
      }
    }
  });
  document.addEventListener("click", (event) => {
    document.querySelectorAll("details.switcher[open]").forEach((each) => {
      if (!each.contains(event.target)) {
        each.open = false;
      }
    });
  });
})();
