import { Transport } from "./transport.js";
import type { ApiRequest, RequestOptions, TransportOptions } from "./transport.js";

type PathRequest = Omit<ApiRequest, "method" | "url">;

interface Page<T> {
  data: T[];
  last_id: string | null;
  has_more: boolean;
}

/** The requests of the API, by their method and path. */
export class Api {
  readonly #transport: Transport;
  readonly #baseUrl: string;

  constructor(baseUrl: string, apiKey: string, options: TransportOptions) {
    const headers = { Authorization: `Bearer ${apiKey}`, ...options.headers };
    this.#transport = new Transport({ ...options, headers });
    this.#baseUrl = baseUrl.replace(/\/+$/, "");
  }

  get timeout(): number {
    return this.#transport.timeout;
  }

  get maxRetries(): number {
    return this.#transport.maxRetries;
  }

  get<T>(path: string, query: object, options: RequestOptions): Promise<T> {
    return this.json("GET", path, { query }, options);
  }

  /** POST with an idempotency key. */
  create<T>(path: string, body: unknown, options: RequestOptions): Promise<T> {
    return this.json("POST", path, { body, idempotent: true }, options);
  }

  /** POST without an idempotency key. */
  post<T>(path: string, body: unknown, options: RequestOptions): Promise<T> {
    return this.json("POST", path, { body }, options);
  }

  update<T>(path: string, body: unknown, options: RequestOptions): Promise<T> {
    return this.json("PATCH", path, { body }, options);
  }

  delete(path: string, options: RequestOptions): Promise<void> {
    return this.json("DELETE", path, {}, options);
  }

  /** Yield the items of a list, page by page. */
  async *list<T>(path: string, query: object, options: RequestOptions): AsyncGenerator<T> {
    let after: { after?: string } = {};
    for (;;) {
      const page: Page<T> = await this.get(path, { ...query, ...after }, options);
      yield* page.data;
      if (!page.has_more || page.last_id === null) return;
      after = { after: page.last_id };
    }
  }

  send<T>(
    method: ApiRequest["method"],
    path: string,
    request: PathRequest,
    options: RequestOptions,
    read: (response: Response) => Promise<T> | T,
  ): Promise<T> {
    return this.#transport.send({ ...request, method, url: this.#baseUrl + path }, options, read);
  }

  json<T>(
    method: ApiRequest["method"],
    path: string,
    request: PathRequest,
    options: RequestOptions,
  ): Promise<T> {
    return this.#transport.json<T>({ ...request, method, url: this.#baseUrl + path }, options);
  }
}
