// Requests: authorization, timeouts, retries and idempotency keys.

import { APIConnectionError, APITimeoutError, errorFrom, RunwardError } from "./errors.js";

/** Options of a single request. */
export interface RequestOptions {
  /** Aborts the request, its retries, and the reading of a stream. */
  signal?: AbortSignal;
  /** How long one attempt may take, in milliseconds. */
  timeout?: number;
  /** How often a failed request is sent again. */
  maxRetries?: number;
  /** Requests with the same key take effect once. By default each call makes a key of its own. */
  idempotencyKey?: string;
  headers?: Record<string, string>;
}

export interface TransportOptions {
  headers?: Record<string, string>;
  timeout?: number;
  maxRetries?: number;
  fetch?: typeof fetch;
}

export interface ApiRequest {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  url: string;
  query?: object | undefined;
  body?: unknown;
  /** Sends an Idempotency-Key, the same in each attempt. */
  idempotent?: boolean;
  /** Whether the response is a stream, for which the timeout does not count. */
  streamed?: boolean;
  headers?: Record<string, string>;
}

const TIMEOUT_MS = 60_000;
const MAX_RETRIES = 2;
const MAX_BACKOFF_MS = 8_000;
const MAX_RETRY_AFTER_MS = 60_000;
/** Statuses after which to retry, unless the header `x-should-retry` is `false`, as in most 409. */
const TEMPORARY = new Set([408, 409, 425, 429, 500, 502, 503, 504]);

export class Transport {
  readonly maxRetries: number;
  readonly timeout: number;
  readonly #headers: Record<string, string>;
  readonly #fetch: typeof fetch;

  constructor(options: TransportOptions = {}) {
    this.maxRetries = options.maxRetries ?? MAX_RETRIES;
    this.timeout = options.timeout ?? TIMEOUT_MS;
    this.#headers = options.headers ?? {};
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Send a request and return the JSON of its response, undefined if there is none. */
  async json<T>(request: ApiRequest, options: RequestOptions = {}): Promise<T> {
    return (await this.send(request, options, readJson)) as T;
  }

  /**
   * Send a request until an attempt succeeds, and return what `read` makes of its response. The
   * timeout covers the reading. Throws an APIError or an APIConnectionError.
   */
  async send<T>(
    request: ApiRequest,
    options: RequestOptions,
    read: (response: Response) => Promise<T> | T,
  ): Promise<T> {
    const headers: Record<string, string> = { ...this.#headers, ...request.headers, ...options.headers };
    const init: RequestInit = { method: request.method, headers };
    if (request.body !== undefined) {
      init.body = JSON.stringify(request.body);
      headers["Content-Type"] = "application/json";
    }
    if (request.idempotent) headers["Idempotency-Key"] ??= options.idempotencyKey ?? randomKey();
    const url = request.url + toSearch(request.query);
    const maxRetries = options.maxRetries ?? this.maxRetries;
    for (let attempt = 0; ; attempt += 1) {
      const timeout = request.streamed ? undefined : AbortSignal.timeout(options.timeout ?? this.timeout);
      let delay: number | null;
      try {
        const response = await this.#fetch(url, { ...init, signal: anyOf(options.signal, timeout) });
        if (response.ok) return await read(response);
        delay = attempt < maxRetries ? retryDelay(response, attempt) : null;
        if (delay === null) throw await errorFrom(response);
        await response.body?.cancel();
      } catch (error) {
        const failure = connectionError(error, options.signal, timeout);
        if (failure === null || attempt >= maxRetries) throw failure ?? error;
        delay = backoff(attempt);
      }
      await sleep(delay, options.signal);
    }
  }
}

async function readJson(response: Response): Promise<unknown> {
  const text = await response.text();
  return text === "" ? undefined : JSON.parse(text);
}

/** Return the error to retry or throw if no response arrived, and null for any other error. */
export function connectionError(
  error: unknown,
  signal: AbortSignal | undefined,
  timeout?: AbortSignal,
): APIConnectionError | null {
  if (signal?.aborted) return null;
  if (timeout?.aborted) return new APITimeoutError("No response within the timeout.", { cause: error });
  if (error instanceof RunwardError || error instanceof SyntaxError) return null;
  // Node's fetch gives the reason as `cause`.
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const message = reason instanceof Error ? reason.message : String(reason);
  return new APIConnectionError(`The connection failed: ${message}`, { cause: error });
}

/** Return the milliseconds after which to retry, or null if the error is final. */
function retryDelay(response: Response, attempt: number): number | null {
  if (!TEMPORARY.has(response.status) || response.headers.get("x-should-retry") === "false") return null;
  const after = Number(response.headers.get("retry-after") ?? Number.NaN) * 1000;
  if (Number.isNaN(after)) return backoff(attempt);
  return after <= MAX_RETRY_AFTER_MS ? after : null;
}

/** Return a random delay in milliseconds that doubles with each attempt on average. */
export function backoff(attempt: number): number {
  return Math.min(500 * 2 ** attempt, MAX_BACKOFF_MS) * (0.5 + Math.random() / 2);
}

export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted) abort();
  });
}

export function anyOf(...signals: (AbortSignal | undefined)[]): AbortSignal {
  return AbortSignal.any(signals.filter((signal) => signal !== undefined));
}

function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return a path with IDs or names in it. Throws for one that would lead to another path. */
export function path(texts: TemplateStringsArray, ...ids: string[]): string {
  const wrong = ids.find((id) => /^\.{0,2}$/.test(id));
  if (wrong !== undefined) throw new RunwardError(`${JSON.stringify(wrong)} is not an ID.`);
  return String.raw({ raw: texts }, ...ids.map(encodeURIComponent));
}

function toSearch(query: object = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}
