// One stream of events for all open pages of a cluster, in whatever tabs and windows of one browser.
//
// A browser has six connections for one console. With a stream for each page, the seventh page would not even load. A
// page says what it wants, again and again while it is seen, and is forgotten when it says that it leaves or says
// nothing any more. A stream without pages is closed.
"use strict";

const FORGET_AFTER_MS = 30000; // a page says that it is there every 5 s
const streams = new Map(); // by address: { source, pages: port -> when it was last heard, last: the newest event }

function close(address) {
  streams.get(address).source.close();
  streams.delete(address);
}

function leave(port) {
  for (const [address, stream] of streams) {
    if (stream.pages.delete(port) && stream.pages.size === 0) {
      close(address);
    }
  }
}

function open(address) {
  const stream = { source: new EventSource(address), pages: new Map(), last: null };
  streams.set(address, stream);
  function tell(said) {
    for (const port of stream.pages.keys()) {
      port.postMessage(said);
    }
  }
  for (const name of ["snapshot", "beat"]) {
    stream.source.addEventListener(name, (event) => {
      stream.last = { name, data: event.data };
      tell(stream.last);
    });
  }
  stream.source.addEventListener("error", () => {
    const isClosed = stream.source.readyState === EventSource.CLOSED;
    stream.last = null;
    tell({ name: "error", isClosed });
    if (isClosed && streams.get(address) === stream) {
      close(address);
    }
  });
  return stream;
}

function want(port, address) {
  const stream = streams.get(address) || open(address);
  const isNew = !stream.pages.has(port);
  stream.pages.set(port, Date.now());
  if (isNew && stream.last) {
    port.postMessage(stream.last);
  }
}

self.addEventListener("connect", (event) => {
  const port = event.ports[0];
  port.addEventListener("message", (message) => {
    if (message.data.wants) {
      want(port, message.data.wants);
    } else {
      leave(port);
    }
  });
  port.start();
});

setInterval(() => {
  for (const stream of streams.values()) {
    for (const [port, heardAt] of stream.pages) {
      if (Date.now() - heardAt > FORGET_AFTER_MS) {
        leave(port);
      }
    }
  }
}, FORGET_AFTER_MS / 2);
