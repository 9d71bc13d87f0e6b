// The script of the console. Pages work without it, except for uploads.
"use strict";

// Asks before a change that cannot be undone.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-confirm]");
  if (button && !window.confirm(button.dataset.confirm)) event.preventDefault();
});

// Selects a link, so that one key copies it.
for (const link of document.querySelectorAll("[data-copy]")) {
  link.addEventListener("focus", () => link.select());
}

const PART_BYTES = 16 * 1024 * 1024;
const PARTS_AT_ONCE = 3;
const ATTEMPTS = 5;
// The start of the names under which the browser keeps uploads that are not complete.
const PARTS_MEMORY = "upload-in-parts ";
const wait = (seconds) => new Promise((resume) => setTimeout(resume, seconds * 1000));

class Uploads {
  constructor(area) {
    this.area = area;
    this.path = area.dataset.upload;
    this.list = area.querySelector("[data-progress]");
    this.offers = new Map();
    this.offer();
    area.hidden = false;
    for (const input of area.querySelectorAll("[data-files]")) {
      input.addEventListener("change", () => this.begin([...input.files]));
    }
    area.addEventListener("dragover", (event) => { event.preventDefault(); area.classList.add("over"); });
    area.addEventListener("dragleave", () => area.classList.remove("over"));
    area.addEventListener("drop", (event) => {
      event.preventDefault();
      area.classList.remove("over");
      this.begin([...event.dataTransfer.files]);
    });
  }

  // Shows the uploads of this bucket that an earlier page began and did not complete.
  offer() {
    for (const memory of Object.keys(localStorage)) {
      if (!memory.startsWith(`${PARTS_MEMORY}${this.path} `)) continue;
      const { key, upload } = JSON.parse(localStorage.getItem(memory));
      const row = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet";
      button.textContent = "Discard";
      button.setAttribute("aria-label", "Discard the upload of " + key);
      button.addEventListener("click", () => this.discard(memory, { key, upload }));
      row.append(`${key} is not complete. Choose the file again to continue. `, button);
      this.offers.set(memory, row);
      this.list.append(row);
    }
  }

  async discard(memory, query) {
    const row = this.offers.get(memory);
    try {
      await this.send("abort", query);
    } catch (error) {
      // An upload that is gone needs no discard.
      if (error.status !== 404) {
        row.append(" Failed: " + error.message);
        return;
      }
    }
    localStorage.removeItem(memory);
    row.remove();
  }

  // One file after the other: the parts of a file already go in parallel.
  async begin(files) {
    let failed = false;
    for (const file of files) failed = !(await this.upload(file)) || failed;
    if (files.length && !failed) window.location.reload();
  }

  async upload(file) {
    const key = this.area.dataset.prefix + (file.webkitRelativePath || file.name);
    const row = document.createElement("li");
    const name = document.createElement("span");
    const bar = document.createElement("progress");
    const state = document.createElement("span");
    name.textContent = key;
    bar.max = Math.max(file.size, 1);
    bar.value = 0;
    bar.setAttribute("aria-label", "Upload of " + key);
    row.append(name, bar, state);
    this.list.append(row);
    try {
      if (file.size <= PART_BYTES) {
        await this.send("content", { key, kind: file.type }, file);
        bar.value = bar.max;
      } else {
        await this.inParts(file, key, bar);
      }
      state.textContent = "Done";
      return true;
    } catch (error) {
      state.textContent = "Failed: " + error.message;
      return false;
    }
  }

  async inParts(file, key, bar) {
    const memory = PARTS_MEMORY + [this.path, key, file.size, file.lastModified].join(" ");
    const have = new Map();
    let { upload } = JSON.parse(localStorage.getItem(memory) || "{}");
    this.offers.get(memory)?.remove();
    if (upload) {
      try {
        const known = await this.get("parts", { key, upload });
        for (const part of known.parts) have.set(part.number, part);
      } catch (error) {
        // The upload was discarded. While the network does not answer, it may still be there.
        if (!(error.status < 500)) throw error;
        upload = null;
      }
    }
    if (!upload) {
      upload = (await this.send("uploads", { key, kind: file.type })).upload;
      localStorage.setItem(memory, JSON.stringify({ key, upload }));
    }
    const count = Math.ceil(file.size / PART_BYTES);
    const parts = [];
    let next = 1;
    const work = async () => {
      while (next <= count) {
        const number = next++;
        const content = file.slice((number - 1) * PART_BYTES, number * PART_BYTES);
        const known = have.get(number);
        const done = known && known.size === content.size
          ? known : await this.send("part", { key, upload, number }, content);
        parts.push({ number, etag: done.etag });
        bar.value += content.size;
      }
    };
    // After a failure, no worker begins another part: the file may be chosen again at once.
    const stop = (error) => { next = count + 1; throw error; };
    const workers = Array.from({ length: PARTS_AT_ONCE }, () => work().catch(stop));
    const failed = (await Promise.allSettled(workers)).find((worker) => worker.reason);
    if (failed) throw failed.reason;
    parts.sort((one, other) => one.number - other.number);
    await this.send("complete", { key, upload }, JSON.stringify(parts));
    localStorage.removeItem(memory);
  }

  send(action, query, body) {
    const headers = { [this.area.dataset.tokenHeader]: this.area.dataset.token };
    return this.ask(action, query, { method: "POST", body, headers });
  }

  get(action, query) {
    return this.ask(action, query, {});
  }

  // A network that breaks is tried again; an answer of the server is final, except for overload. The error
  // of an answer has its status.
  async ask(action, query, options) {
    for (let attempt = 1; ; attempt++) {
      let answer;
      try {
        answer = await fetch(`${this.path}/${action}?${new URLSearchParams(query)}`, options);
        if (answer.ok && !answer.redirected) return answer.status === 204 ? null : await answer.json();
      } catch (error) {
        if (attempt >= ATTEMPTS) throw new Error("the network does not answer; choose the file again to continue");
        await wait(2 ** attempt);
        continue;
      }
      if (answer.redirected) throw new Error("the login has ended");
      if (answer.status !== 503 || attempt >= ATTEMPTS) {
        throw Object.assign(new Error(await this.reason(answer)), { status: answer.status });
      }
      await wait(2 ** attempt);
    }
  }

  async reason(answer) {
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const sentence = page.querySelector(".problem strong");
    return sentence ? sentence.textContent : "status " + answer.status;
  }
}

for (const area of document.querySelectorAll("[data-upload]")) new Uploads(area);

// A part of a page that changes by itself. It is read again while the page is visible. These requests do not
// count as work of the person, so they do not prolong the login.
async function refresh(part) {
  while (part.dataset.refresh) {
    await wait(Number(part.dataset.refresh));
    if (document.hidden || part.contains(document.activeElement)) continue;
    const answer = await fetch(location.href, { headers: { "x-refresh": "1" } }).catch(() => null);
    if (!answer || !answer.ok) continue;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById(part.id);
    if (!fresh) return location.reload();
    part.replaceWith(fresh);
    part = fresh;
  }
}

for (const part of document.querySelectorAll("[data-refresh]")) refresh(part);

const TRACE_ROWS = 200;

// Shows each event of a trace as a row, the newest first.
function trace(table) {
  const state = document.getElementById("trace-state");
  const body = table.tBodies[0];
  const events = new EventSource(table.dataset.trace);
  let missed = 0;
  events.addEventListener("open", () => { state.textContent = "Connected."; });
  events.addEventListener("error", () => { state.textContent = "The connection was lost. Connecting again."; });
  events.addEventListener("missed", (event) => {
    missed += Number(event.data);
    state.textContent = `${missed} requests were not shown, because there were too many at once.`;
  });
  events.addEventListener("trace", (event) => {
    const entry = JSON.parse(event.data);
    const place = [entry.bucket, entry.key].filter(Boolean).join("/");
    const by = entry.requester ? entry.requester.user || entry.requester.key || "" : "anonymous";
    const took = entry.total_us < 10000 ? `${entry.total_us} µs` : `${Math.round(entry.total_us / 1000)} ms`;
    const row = document.createElement("tr");
    for (const text of [entry.time.slice(11, 23), entry.operation, place, by, entry.remote || "", `${entry.status} ${entry.code || ""}`, took]) {
      row.appendChild(document.createElement("td")).textContent = text;
    }
    body.prepend(row);
    while (body.rows.length > TRACE_ROWS) body.lastElementChild.remove();
  });
}

for (const table of document.querySelectorAll("[data-trace]")) trace(table);
