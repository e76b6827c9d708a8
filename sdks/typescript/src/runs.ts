import { anyOf, backoff, connectionError, path, sleep } from "./transport.js";
import type { RequestOptions } from "./transport.js";
import type { Api } from "./api.js";
import { APITimeoutError } from "./errors.js";
import { readFrames } from "./sse.js";
import type { Frame } from "./sse.js";
import type {
  CancelRun,
  SubmitToolResult,
  ContinueRun,
  EventList,
  paths,
  Resolution,
  Run,
  RunItem,
  SendInput,
  StartRun,
  StreamedEvent,
  ToolCall,
} from "./types.js";

export type RunQuery = NonNullable<paths["/v1/runs"]["get"]["parameters"]["query"]>;

export interface EventOptions extends RequestOptions {
  /** The sequence number of the last event that you have. By default all events are read. */
  after?: number | string;
  /** `children` reads the events of all runs below this one too. */
  include?: "children";
}

export interface WaitOptions extends RequestOptions {
  /**
   * `idle` waits until the run is final or requires an action, such as an approval. `final` waits on
   * until it is final. The default is `idle`.
   */
  until?: "idle" | "final";
}

/** How long a stream may be silent, in milliseconds. The service writes at least every 15 seconds. */
const SILENCE_MS = 45_000;
const WAIT_SECONDS = 30;
/** Opening a stream is retried this many times as often as another request. */
const STREAM_PATIENCE = 5;

/** A run, as it was when it was last read, with the methods that need its ID. */
export interface RunHandle extends Run {}
export class RunHandle {
  readonly #runs: Runs;

  constructor(runs: Runs, run: Run) {
    this.#runs = runs;
    Object.assign(this, run);
  }

  /** Yield the events of the run until its last one. See `Runs.events`. */
  events(options: EventOptions = {}): AsyncGenerator<StreamedEvent> {
    return this.#runs.events(this.id, options);
  }

  /** Wait until the run is idle or final, and update this object. */
  async wait(options: WaitOptions = {}): Promise<this> {
    return Object.assign(this, await this.#runs.wait(this.id, options));
  }

  /** Cancel the run, and update this object. */
  async cancel(body: CancelRun = {}, options: RequestOptions = {}): Promise<this> {
    return Object.assign(this, await this.#runs.cancel(this.id, body, options));
  }
}

export class Runs {
  readonly #api: Api;

  constructor(api: Api) {
    this.#api = api;
  }

  /** Start a run and return it, usually before it has done anything. */
  async start(body: StartRun, options: RequestOptions = {}): Promise<RunHandle> {
    return this.#handle(await this.#api.create<Run>("/v1/runs", body, options));
  }

  async retrieve(id: string, options: RequestOptions = {}): Promise<RunHandle> {
    return this.#handle(await this.#api.get<Run>(path`/v1/runs/${id}`, {}, options));
  }

  /** Yield runs, newest first, page by page. `limit` is the size of a page. */
  async *list(query: RunQuery = {}, options: RequestOptions = {}): AsyncGenerator<RunHandle> {
    for await (const run of this.#api.list<Run>("/v1/runs", query, options)) yield this.#handle(run);
  }

  /** Wait until a run is idle or final, and return it. */
  async wait(id: string, options: WaitOptions = {}): Promise<RunHandle> {
    const { until = "idle", ...rest } = options;
    for (;;) {
      const [run, isIdle] = await this.#poll(id, rest);
      if (isIdle && (until === "idle" || run.ended_at !== null)) return this.#handle(run);
      if (!isIdle) continue;
      const query = { after: run.last_sequence, wait: WAIT_SECONDS, limit: 1 };
      await this.#api.get<EventList>(path`/v1/runs/${id}/events`, query, this.#patiently(rest));
    }
  }

  /** Cancel a run: at once, or with the mode `after_turn` when its current turn has ended. */
  async cancel(id: string, body: CancelRun = {}, options: RequestOptions = {}): Promise<RunHandle> {
    return this.#handle(await this.#api.post<Run>(path`/v1/runs/${id}/cancel`, body, options));
  }

  /** Erase the content of a run and its child runs. If the run is open, cancel it first. */
  async delete(id: string, options: RequestOptions = {}): Promise<void> {
    await this.#api.delete(path`/v1/runs/${id}`, options);
  }

  /** Send a message to a run that has not ended. */
  async sendInput(id: string, input: SendInput["input"], options: RequestOptions = {}): Promise<RunHandle> {
    return this.#handle(await this.#api.create<Run>(path`/v1/runs/${id}/input`, { input }, options));
  }

  /** Start a new run that continues one that has ended. */
  async continue(id: string, body: ContinueRun = {}, options: RequestOptions = {}): Promise<RunHandle> {
    return this.#handle(await this.#api.create<Run>(path`/v1/runs/${id}/continue`, body, options));
  }

  /** Yield the messages and tool calls of a run. */
  items(id: string, options: RequestOptions = {}): AsyncGenerator<RunItem> {
    return this.#api.list<RunItem>(path`/v1/runs/${id}/items`, {}, options);
  }

  /** Yield the tool calls of a run. */
  toolCalls(id: string, options: RequestOptions = {}): AsyncGenerator<ToolCall> {
    return this.#api.list<ToolCall>(path`/v1/runs/${id}/tool_calls`, {}, options);
  }

  /** Give the result of a call of a client tool, or the answer that a tool asks for. */
  submitToolResult(id: string, callId: string, body: SubmitToolResult, options: RequestOptions = {}): Promise<ToolCall> {
    return this.#api.create<ToolCall>(path`/v1/runs/${id}/tool_calls/${callId}/result`, body, options);
  }

  /** Record the outcome of a call whose outcome is unknown. */
  resolveToolCall(id: string, callId: string, body: Resolution, options: RequestOptions = {}): Promise<ToolCall> {
    return this.#api.create<ToolCall>(path`/v1/runs/${id}/tool_calls/${callId}/resolve`, body, options);
  }

  /**
   * Yield the events of a run, from its first until its last one. A connection that breaks is opened
   * again after the last event, so no stored event is missing or comes twice. Parts of texts, such as
   * `message.delta`, are not stored: after a break they come again from the beginning of their turn,
   * with `offset` 0. Ignore types that you do not know, because versions of the service add some.
   */
  async *events(id: string, options: EventOptions = {}): AsyncGenerator<StreamedEvent> {
    const { after, include, ...rest } = options;
    let cursor = String(after ?? "");
    let breaks = 0;
    for (;;) {
      try {
        for await (const frame of this.#frames(id, include, cursor, rest)) {
          if (frame === null) return;
          if (frame.id !== null) cursor = frame.id;
          breaks = 0;
          yield JSON.parse(frame.data) as StreamedEvent;
        }
      } catch (error) {
        if (connectionError(error, rest.signal) === null) throw error;
      }
      if (breaks > 0) await sleep(backoff(breaks - 1), rest.signal); // nothing came since the last break
      breaks += 1;
    }
  }

  /** Yield the frames of one connection, and null if the run has ended and no event is left. */
  async *#frames(
    id: string,
    include: string | undefined,
    cursor: string,
    options: RequestOptions,
  ): AsyncGenerator<Frame | null> {
    const silence = new AbortController();
    const limit = (milliseconds: number, reason: Error) =>
      setTimeout(() => silence.abort(reason), milliseconds);
    let timer = limit(options.timeout ?? this.#api.timeout, new APITimeoutError("The stream did not begin."));
    const restart = () => {
      clearTimeout(timer);
      timer = limit(SILENCE_MS, new Error("The stream was silent for too long."));
    };
    const maxRetries = (options.maxRetries ?? this.#api.maxRetries) * STREAM_PATIENCE;
    const signal = anyOf(options.signal, silence.signal);
    const headers = { Accept: "text/event-stream", ...(cursor && { "Last-Event-ID": cursor }) };
    const request = { query: { include }, headers, streamed: true };
    try {
      const response = await this.#api.send(
        "GET", path`/v1/runs/${id}/events`, request, { ...options, signal, maxRetries }, (response: Response) => response,
      );
      restart();
      if (response.status === 204 || response.body === null) yield null;
      else yield* readFrames(response.body, restart);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Return a run after at most WAIT_SECONDS, and whether nothing of it can run now. */
  #poll(id: string, options: RequestOptions): Promise<[Run, boolean]> {
    const query = { wait: WAIT_SECONDS };
    const read = async (response: Response): Promise<[Run, boolean]> => [
      (await response.json()) as Run,
      response.status === 200,
    ];
    return this.#api.send("GET", path`/v1/runs/${id}`, { query }, this.#patiently(options), read);
  }

  #patiently(options: RequestOptions): RequestOptions {
    return { ...options, timeout: (options.timeout ?? this.#api.timeout) + WAIT_SECONDS * 1000 };
  }

  #handle(run: Run): RunHandle {
    return new RunHandle(this, run);
  }
}
