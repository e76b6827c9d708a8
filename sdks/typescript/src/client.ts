import { Api } from "./api.js";
import { ConflictError, RunwardError } from "./errors.js";
import { Runs } from "./runs.js";
import { path } from "./transport.js";
import type { ApiRequest, RequestOptions, TransportOptions } from "./transport.js";
import type {
  Agent,
  Approval,
  CreateSession,
  Decision,
  ForkSession,
  NewTool,
  UpdateAgent,
  UpdateSession,
  UpdateTool,
  paths,
  RegisterAgent,
  RegisterTool,
  Session,
  SessionItem,
  Tool,
  ToolDefinition,
  ToolSecret,
  ToolTestResult,
  TestTool,
} from "./types.js";

export type ApprovalQuery = NonNullable<paths["/v1/approvals"]["get"]["parameters"]["query"]>;
export type ListQuery = NonNullable<paths["/v1/tools"]["get"]["parameters"]["query"]>;

export interface RunwardOptions extends TransportOptions {
  /** An API key. The default is the environment variable RUNWARD_KEY. */
  apiKey?: string;
  /** The address of the service. The default is RUNWARD_URL, or else http://127.0.0.1:8080. */
  baseUrl?: string;
}

/** The fields of a tool that can also be updated, with its name and type. */
export type UpsertTool = Pick<RegisterTool, "name" | "type" | (keyof RegisterTool & keyof UpdateTool)>;

const DEFAULT_URL = "http://127.0.0.1:8080";

/** A client of the Runward API, for the project of its API key. */
export class Runward {
  readonly runs: Runs;
  readonly approvals: Approvals;
  readonly sessions: Sessions;
  readonly tools: Tools;
  readonly agents: Agents;
  readonly #api: Api;

  constructor(options: RunwardOptions = {}) {
    const apiKey = options.apiKey ?? readVariable("RUNWARD_KEY");
    if (!apiKey) throw new RunwardError("No API key. Pass apiKey, or set RUNWARD_KEY.");
    const baseUrl = options.baseUrl ?? readVariable("RUNWARD_URL") ?? DEFAULT_URL;
    this.#api = new Api(baseUrl, apiKey, options);
    this.runs = new Runs(this.#api);
    this.approvals = new Approvals(this.#api);
    this.sessions = new Sessions(this.#api, "/v1/sessions");
    this.tools = new Tools(this.#api, "/v1/tools");
    this.agents = new Agents(this.#api, "/v1/agents");
  }

  /** Send any other request of the API, such as `request("PUT", "/v1/policy", { body })`. */
  request<T>(
    method: ApiRequest["method"],
    path: string,
    request: { query?: object; body?: unknown } = {},
    options: RequestOptions = {},
  ): Promise<T> {
    return this.#api.json<T>(method, path, { ...request, idempotent: method === "POST" }, options);
  }
}

export class Approvals {
  readonly #api: Api;

  constructor(api: Api) {
    this.#api = api;
  }

  /** Yield the approvals that wait for a decision. */
  inbox(query: Omit<ApprovalQuery, "status"> = {}, options: RequestOptions = {}): AsyncGenerator<Approval> {
    return this.list({ ...query, status: "pending" }, options);
  }

  /** Yield approvals, page by page. */
  list(query: ApprovalQuery = {}, options: RequestOptions = {}): AsyncGenerator<Approval> {
    return this.#api.list("/v1/approvals", query, options);
  }

  retrieve(id: string, options: RequestOptions = {}): Promise<Approval> {
    return this.#api.get(path`/v1/approvals/${id}`, {}, options);
  }

  /**
   * Decide an approval. If it is given as it was read, and not only by its ID, the decision counts for
   * exactly that call: it is refused with `digest_mismatch` if the call has changed.
   */
  decide(
    approval: string | Pick<Approval, "id" | "digest">,
    decision: Decision,
    options: RequestOptions = {},
  ): Promise<Approval> {
    const { id, ...seen } =
      typeof approval === "string" ? { id: approval } : { id: approval.id, digest: approval.digest };
    return this.#api.create(path`/v1/approvals/${id}/decision`, { ...seen, ...decision }, options);
  }
}

/** The methods that sessions, tools and agents have in common. */
class Collection<Item, NewItem, Body, Patch> {
  protected readonly api: Api;
  protected readonly path: string;

  constructor(api: Api, path: string) {
    this.api = api;
    this.path = path;
  }

  create(body: Body, options: RequestOptions = {}): Promise<NewItem> {
    return this.api.create(this.path, body, options);
  }

  retrieve(id: string, options: RequestOptions = {}): Promise<Item> {
    return this.api.get(this.path + path`/${id}`, {}, options);
  }

  /** Yield all items, page by page. */
  list(query: ListQuery = {}, options: RequestOptions = {}): AsyncGenerator<Item> {
    return this.api.list(this.path, query, options);
  }

  update(id: string, body: Patch, options: RequestOptions = {}): Promise<Item> {
    return this.api.update(this.path + path`/${id}`, body, options);
  }

  delete(id: string, options: RequestOptions = {}): Promise<void> {
    return this.api.delete(this.path + path`/${id}`, options);
  }
}

export class Sessions extends Collection<Session, Session, CreateSession, UpdateSession> {
  /** Yield the messages and tool calls of all runs of a session. */
  items(id: string, query: ListQuery = {}, options: RequestOptions = {}): AsyncGenerator<SessionItem> {
    return this.api.list(this.path + path`/${id}/items`, query, options);
  }

  /** Create a session that begins with the items of another one. */
  fork(id: string, body: ForkSession = {}, options: RequestOptions = {}): Promise<Session> {
    return this.api.create(this.path + path`/${id}/fork`, body, options);
  }
}

/** Only the response of `create` has the signing secret of a webhook tool. */
export class Tools extends Collection<Tool, NewTool, ToolDefinition, UpdateTool> {
  /** Register a tool, or update the one of this name. It has a `secret` only if it is new. */
  async upsert(body: UpsertTool, options: RequestOptions = {}): Promise<Tool & { secret?: string }> {
    const { name, type: _, ...fields } = body;
    try {
      return await this.create(body, options);
    } catch (error) {
      if (error instanceof ConflictError) return this.update(name, fields, options);
      throw error;
    }
  }

  /** Create a new signing secret. For 24 hours requests are signed with the old one too. */
  rotateSecret(name: string, options: RequestOptions = {}): Promise<ToolSecret> {
    return this.api.create(this.path + path`/${name}/rotate_secret`, undefined, options);
  }

  /** Call a tool once, outside of any run. It is not retried. */
  test(name: string, body: TestTool, options: RequestOptions = {}): Promise<ToolTestResult> {
    return this.api.post(this.path + path`/${name}/test`, body, { ...options, maxRetries: 0 });
  }
}

export class Agents extends Collection<Agent, Agent, RegisterAgent, UpdateAgent> {
  /** Register an agent, or update the one of this name. */
  async upsert(body: RegisterAgent, options: RequestOptions = {}): Promise<Agent> {
    const { name, ...fields } = body;
    try {
      return await this.create(body, options);
    } catch (error) {
      if (error instanceof ConflictError) return this.update(name, fields, options);
      throw error;
    }
  }
}

function readVariable(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}
