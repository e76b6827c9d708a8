import type { Problem } from "./types.js";

/** The base class of all errors of this package. */
export class RunwardError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No complete response arrived: the connection failed or broke. */
export class APIConnectionError extends RunwardError {}

/** No complete response arrived within the timeout. */
export class APITimeoutError extends APIConnectionError {}

/** The service answered with an error. The list of codes is in docs/reference/errors.md. */
export class APIError extends RunwardError {
  /** The HTTP status. */
  readonly status: number;
  /** The code of the error, which never changes, such as `run_not_found`. Null if a proxy answered. */
  readonly code: string | null;
  /** The path of the first wrong value in the request, such as `tools.0`. */
  readonly param: string | null;
  /** The ID of the request, which the log of the service has too. */
  readonly requestId: string | null;
  /** The body of the response. Empty if it is not JSON. */
  readonly problem: Partial<Problem> & Record<string, unknown>;
  readonly headers: Headers;

  constructor(status: number, headers: Headers, problem: APIError["problem"]) {
    const wrong = (problem.errors ?? []).map(({ path, message }) => `${path} ${message}`);
    const detail = problem.detail ?? `The service answered with status ${status}.`;
    super([`${status} ${problem.code ?? "error"}: ${detail}`, ...wrong].join(" "));
    this.status = status;
    this.headers = headers;
    this.problem = problem;
    this.code = problem.code ?? null;
    this.param = problem.errors?.[0]?.path ?? null;
    this.requestId = problem.request_id ?? headers.get("x-request-id");
  }
}

export class BadRequestError extends APIError {}
export class AuthenticationError extends APIError {}
export class PermissionDeniedError extends APIError {}
export class NotFoundError extends APIError {}
export class ConflictError extends APIError {}
export class UnprocessableEntityError extends APIError {}
export class RateLimitError extends APIError {}
export class InternalServerError extends APIError {}

const BY_STATUS: Record<number, typeof APIError> = {
  400: BadRequestError,
  401: AuthenticationError,
  403: PermissionDeniedError,
  404: NotFoundError,
  409: ConflictError,
  422: UnprocessableEntityError,
  429: RateLimitError,
};

/** Return the error that a response of status 400 or above means. */
export async function errorFrom(response: Response): Promise<APIError> {
  const body: unknown = await response.json().catch(() => null);
  const problem = (typeof body === "object" && body !== null ? body : {}) as APIError["problem"];
  const fallback = response.status >= 500 ? InternalServerError : APIError;
  const kind = BY_STATUS[response.status] ?? fallback;
  return new kind(response.status, response.headers, problem);
}
