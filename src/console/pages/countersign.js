// What a page gains with JavaScript. Every page works without: nothing here decides.
"use strict";
(() => {
  const POLL = 2000;
  const say = (text) => { const place = document.getElementById("announce"); if (place) place.textContent = text; };
  const main = () => document.querySelector("main[data-version]");
  let ahead = 0; // how far this computer's clock is ahead of the gateway's, in milliseconds
  let timer;
  let lost = false;

  // ---- times --------------------------------------------------------------------------------
  function localTimes() {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const date = new Date(time.dateTime);
      if (Number.isNaN(+date)) continue;
      time.title = time.dateTime;
      time.textContent = date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    }
  }

  function left(milliseconds) {
    const seconds = Math.ceil(milliseconds / 1000);
    if (seconds < 60) return `${seconds} s left`;
    const minutes = Math.floor(seconds / 60);
    if (minutes < 60) return `${minutes} min ${seconds % 60} s left`;
    return `${Math.floor(minutes / 60)} h ${minutes % 60} min left`;
  }

  function tick() {
    const until = Number(main()?.dataset.until);
    if (!until) return;
    const rest = until - (Date.now() - ahead);
    const countdown = document.getElementById("countdown");
    if (countdown) countdown.textContent = rest > 0 ? left(rest) : "time is over";
    const form = document.getElementById("decide");
    const over = document.getElementById("over");
    if (!form || !over || rest > 0 === over.hidden) return;
    over.hidden = rest > 0;
    for (const control of form.querySelectorAll("button, input, select, textarea")) {
      if (!control.hasAttribute("tabindex")) control.disabled = rest <= 0;
    }
    if (rest <= 0) look();
  }

  // ---- following what happens ---------------------------------------------------------------
  // The same text as `version` in pages/approval.rs.
  function versionOf(state) {
    if (!state || !Array.isArray(state.items)) return undefined;
    return [
      state.state, state.executionStatus, state.digest, state.expiresAtMs, state.nextExecutionId ?? "", state.outcome ? "ended" : "",
      ...state.items.map((item) => `${item.call}:${item.state}`),
    ].join(" ");
  }

  function trouble(text) {
    if (!lost) say(text);
    lost = true;
  }

  async function look() {
    clearTimeout(timer);
    const shown = main();
    if (!shown || shown.dataset.live !== "true" || document.hidden) return;
    try {
      if (!shown.dataset.api) return await lookAtPage(shown);
      const answer = await fetch(shown.dataset.api, { headers: { accept: "application/json" }, cache: "no-store" });
      const date = Date.parse(answer.headers.get("date") ?? "");
      if (date && Math.abs(Date.now() - date) > 3000) ahead = Date.now() - date;
      if (answer.status >= 500 || answer.status === 429) {
        trouble("The gateway does not answer. Trying again.");
      } else {
        lost = false;
        const version = answer.ok ? versionOf((await answer.json()).structured) : undefined;
        if (version !== shown.dataset.version) await swap(shown);
      }
    } catch {
      trouble("The connection is lost. Trying again.");
    } finally {
      clearTimeout(timer);
      timer = setTimeout(look, POLL);
    }
  }

  // A list is its own state: the gateway answers 304 while it is as it is shown.
  async function lookAtPage(shown) {
    const headers = { accept: "text/html", "if-none-match": `"${shown.dataset.version}"` };
    const answer = await fetch(location.href, { headers, cache: "no-store", redirect: "manual" });
    if (answer.status >= 500 || answer.status === 429) return trouble("The gateway does not answer. Trying again.");
    lost = false;
    if (answer.type === "opaqueredirect" || answer.status === 403) location.reload();
    else if (answer.ok) show(shown, await answer.text());
  }

  async function swap(shown) {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
    if (answer.status < 500) show(shown, await answer.text());
  }

  function show(shown, text) {
    const page = new DOMParser().parseFromString(text, "text/html");
    const fresh = page.querySelector("main");
    if (!fresh || shown !== main() || fresh.dataset.version === shown.dataset.version) return;
    const kept = keep(shown);
    const at = scrollY;
    shown.replaceWith(fresh);
    document.title = page.title;
    restore(fresh, kept);
    scrollTo(0, at);
    prepare();
    say(fresh.dataset.announce ?? fresh.querySelector("h1")?.textContent ?? "");
  }

  function keyOf(element) {
    const named = element.closest("[data-key]");
    return named ? `${named.dataset.key} ${[...named.querySelectorAll("details")].indexOf(element)}` : "";
  }

  function keep(root) {
    const focused = document.activeElement;
    return {
      // What was not touched is taken from the new page: it may have changed there.
      texts: [...root.querySelectorAll("textarea, select, .field input:not([type=checkbox])")]
        .filter((field) => field.value !== field.defaultValue)
        .map((field) => [field.name, field.value, field.defaultValue]),
      ticks: [...root.querySelectorAll("input[type=checkbox]")].map((field) => [field.name, field.value, field.checked]),
      choices: [...root.querySelectorAll("input[type=radio]:checked")].map((field) => [field.name, field.value]),
      open: new Set([...root.querySelectorAll("details[open]")].map(keyOf)),
      focus: root.contains(focused) ? { id: focused.id, name: focused.name, value: focused.value, start: focused.selectionStart, end: focused.selectionEnd, item: focused.closest(".item")?.id } : undefined,
    };
  }

  function restore(root, { texts, ticks, choices, open, focus }) {
    const named = (name) => [...root.querySelectorAll("textarea, select, input, button")].filter((field) => field.name === name);
    // Corrected arguments are of the arguments that were shown.
    for (const [name, value, was] of texts) for (const field of named(name)) if (!name.startsWith("arguments-") || field.defaultValue === was) field.value = value;
    for (const [name, value, checked] of ticks) for (const field of named(name)) if (field.value === value) field.checked = checked;
    for (const [name, value] of choices) for (const field of named(name)) if (field.type === "radio") field.checked = field.value === value;
    for (const details of root.querySelectorAll("details")) if (open.has(keyOf(details))) details.open = true;
    if (!focus) return;
    let target = focus.id ? root.querySelector(`#${CSS.escape(focus.id)}`) : undefined;
    target ??= focus.name ? named(focus.name).find((field) => field.value === focus.value) : undefined;
    if (!target && focus.item) {
      target = root.querySelector(`#${CSS.escape(focus.item)}`);
      target?.setAttribute("tabindex", "-1");
    }
    (target ?? root).focus({ preventScroll: true });
    if (target?.tagName === "TEXTAREA") target.setSelectionRange(focus.start, focus.end);
  }

  // ---- small things -------------------------------------------------------------------------
  document.addEventListener("submit", ({ target, submitter }) => {
    if (submitter?.formMethod === "dialog") return;
    // After the browser has read the form: a second press must not send a second answer.
    setTimeout(() => { for (const button of target.querySelectorAll("button")) button.disabled = true; }, 0);
    setTimeout(() => { for (const button of target.querySelectorAll("button:not([tabindex])")) button.disabled = false; }, 8000);
  });

  document.addEventListener("click", async ({ target }) => {
    const link = target.closest?.('a[href^="#line-"]');
    if (link && !document.getElementById(link.hash.slice(1))) document.querySelector("#program")?.scrollIntoView();
    const button = target.closest?.(".copy");
    if (!button) return;
    const text = button.parentElement.querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.firstChild.data = "Copied";
      say("Copied");
      setTimeout(() => { button.firstChild.data = "Copy"; }, 2000);
    } catch {
      getSelection().selectAllChildren(button.parentElement.querySelector("code"));
    }
  });

  function prepare() {
    localTimes();
    tick();
    if (navigator.clipboard) for (const button of document.querySelectorAll(".copy")) button.hidden = false;
  }

  prepare();
  if (main()) {
    setInterval(tick, 1000);
    timer = setTimeout(look, POLL);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
    addEventListener("pageshow", ({ persisted }) => { if (persisted) location.reload(); });
  }
})();
