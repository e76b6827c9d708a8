// The console's requests to the server: the public API under /v1, and the console's own session.
// Addresses are relative, so that the console also works under a path prefix of a proxy.

import { parse } from "./exact.js";

export class Problem extends Error {
  /**
   * An error response (RFC 9457). The status is 0 if no response arrived.
   * @param {number} status
   * @param {any} body
   */
  constructor(status, body) {
    super(body?.detail ?? body?.title ?? "The server cannot be reached.");
    this.status = status;
    this.code = body?.code ?? "unreachable";
    /** @type {{path: string, message: string}[]} */
    this.errors = body?.errors ?? [];
    this.body = body;
  }
}

/** Called when the session has ended. */
let signedOut = () => {};

/** @param {() => void} act */
export function whenSignedOut(act) {
  signedOut = act;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{body?: any, query?: Record<string, any>, signal?: AbortSignal, headers?: Record<string, string>}} [options]
 * @returns {Promise<Response>}
 */
async function ask(method, path, { body, query, signal, headers } = {}) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== "");
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  /** @type {Record<string, string>} */
  const sent = { ...headers };
  if (method !== "GET") sent["X-Runward-CSRF"] = "1";
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(given.length ? `${path}?${search}` : path, {
      method,
      headers: sent,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, null);
  }
  if (response.ok || response.status === 304) return response;
  const problem = new Problem(response.status, await response.json().catch(() => null));
  if (response.status === 401 && path.startsWith("v1/")) signedOut();
  throw problem;
}

/**
 * @param {string} path
 * @param {Record<string, any>} [query]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function get(path, query, signal) {
  const response = await ask("GET", path, { query, signal });
  return parse(await response.text());
}

const ANSWERS_KEPT = 20;

/**
 * Return a `get` for polling. It sends the last ETag, so that an unchanged resource is not sent again.
 * @returns {(path: string, query?: Record<string, any>, signal?: AbortSignal) => Promise<any>} Resolves
 *   to the same object as before if nothing has changed.
 */
export function polling() {
  /** @type {Map<string, {etag: string, value: any}>} */
  const known = new Map();
  return async (path, query, signal) => {
    const address = JSON.stringify([path, query]);
    const before = known.get(address);
    const response = await ask("GET", path, { query, signal, headers: before && { "If-None-Match": before.etag } });
    if (before && response.status === 304) return before.value;
    const value = parse(await response.text());
    if (known.size > ANSWERS_KEPT) known.clear();
    known.set(address, { etag: response.headers.get("ETag") ?? "", value });
    return value;
  };
}

/**
 * @param {string} method
 * @param {string} path
 * @param {any} [body]
 * @param {Record<string, string>} [headers]
 * @returns {Promise<any>}
 */
export async function send(method, path, body, headers) {
  const response = await ask(method, path, { body, headers });
  const answer = await response.text();
  return answer ? parse(answer) : null;
}

/**
 * Create `Idempotency-Key` headers. The key stays the same for the same body, so that a request that is
 * sent again after a broken connection takes effect once. Call `again()` to repeat it on purpose.
 */
export function onceOnly() {
  let of = "";
  let key = "";
  const headers = (/** @type {any} */ body) => {
    const now = JSON.stringify(body);
    if (now !== of || !key) [of, key] = [now, crypto.randomUUID()];
    return { "Idempotency-Key": key };
  };
  return Object.assign(headers, { again: () => void (key = "") });
}

/**
 * Load all pages of a list, up to a limit.
 * @param {string} path
 * @param {Record<string, any>} query
 * @param {number} most
 * @param {AbortSignal} [signal]
 * @returns {Promise<{data: any[], more: boolean}>}
 */
export async function all(path, query, most, signal) {
  /** @type {any[]} */
  const data = [];
  let after;
  for (;;) {
    const page = await get(path, { ...query, limit: Math.min(200, most), after }, signal);
    data.push(...page.data);
    if (!page.has_more || data.length >= most) return { data, more: page.has_more };
    after = page.last_id;
  }
}

/** @typedef {{id: string | null, type: string, data: any}} Frame */

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10_000;
const AT_WORK_MS = 40;

/**
 * Stream the events of a run and of its child runs, from the first event on. After a broken connection
 * it resumes after the last event. Returns when the run has ended.
 * @param {string} runId
 * @param {(frame: Frame) => void} take
 * @param {(connected: boolean) => void} connected
 * @param {AbortSignal} signal
 */
export async function follow(runId, take, connected, signal) {
  let last = "";
  let pause = FIRST_PAUSE;
  while (!signal.aborted) {
    try {
      const response = await ask("GET", `v1/runs/${encodeURIComponent(runId)}/events`, {
        query: { include: "children" },
        headers: { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) },
        signal,
      });
      if (response.status === 204 || response.body === null) return;
      connected(true);
      pause = FIRST_PAUSE;
      let since = performance.now();
      for await (const frame of frames(response.body)) {
        if (frame.id !== null) last = frame.id;
        take(frame);
        if (frame.id !== null && frame.data.run_id === runId && FINAL.has(frame.type)) return;
        if (document.hidden || performance.now() - since < AT_WORK_MS) continue;
        await sleep(0); // After many frames at once, the page gets time to draw.
        since = performance.now();
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status >= 400 && error.status < 500 && error.status !== 429) {
        throw error;
      }
    }
    connected(false);
    await sleep(pause, signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

const FINAL = new Set(["run.completed", "run.failed", "run.cancelled", "run.incomplete", "run.expired"]);

/**
 * Parse server-sent events (WHATWG HTML, 9.2.6) as this server writes them: lines end in LF.
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} body
 * @returns {AsyncGenerator<Frame>}
 */
async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        /** @type {Record<string, string>} */
        const fields = {};
        for (const line of block.split("\n")) {
          const at = line.indexOf(": ");
          if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
        }
        if (fields.data) yield { id: fields.id ?? null, type: fields.event, data: parse(fields.data) };
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/**
 * @param {number} ms
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>} Also resolves when the signal aborts first.
 */
export function sleep(ms, signal) {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

/** @returns {Promise<any>} The session, or null if nobody is signed in. */
export async function session() {
  const response = await ask("GET", "console/session");
  return response.status === 204 ? null : response.json();
}

/**
 * @param {string} key
 * @returns {Promise<any>}
 */
export async function signIn(key) {
  return (await ask("POST", "console/session", { body: { key } })).json();
}

export async function signOut() {
  await ask("DELETE", "console/session");
}
