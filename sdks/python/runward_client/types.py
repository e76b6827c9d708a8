"""The types of the API: requests, responses and events."""

# Generated from openapi/openapi.json by sdks/python/scripts/generate.py. Do not edit.

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


class Actor(TypedDict):
    """The API key that performed an action."""
    type: Literal['key']
    """Always `key`."""
    id: str
    """ID of the API key."""
    name: str
    """Name of the API key. A revoked key keeps its name."""


class Agent(TypedDict):
    """A registered agent in its current version."""
    kind: AgentKind
    """Kind of the agent. `llm` calls a model. The workflows `sequential`, `parallel`, and `loop`
    run the agents in `agents` and have no model."""
    model: str | list[str] | None
    """Model as `provider:model`, such as `openai:gpt-5.2` or `offline:rules`. If this is a list,
    Runward uses the next model when a model fails."""
    instructions: str
    """Instructions that the model reads before the input."""
    tools: list[str | AgentTool]
    """Tools that the model may call: names of registered tools, prefixes of names followed by
    `*`, and tools that only this agent has."""
    handoffs: list[str]
    """Names of agents that may take over the run. For each of them, Runward gives the model a
    tool `transfer_to_NAME`."""
    agents: list[str]
    """Names of the agents that a workflow runs, in order. Set only for the kinds `sequential`,
    `parallel`, and `loop`."""
    max_iterations: int
    """Maximum number of times that a workflow of kind `loop` runs its agents."""
    tool_choice: ToolChoiceMode | NamedToolChoice
    """Whether the model may (`auto`), must not (`none`), or must (`required`) call a tool. The
    object `{"name": …}` names the tool that the model must call."""
    reset_tool_choice: bool
    """Whether Runward changes `tool_choice` to `auto` after the first tool call, so that the
    model can finish."""
    parallel_tool_calls: bool
    """Whether the model may request several tool calls in one turn."""
    model_settings: dict[str, JsonValue]
    """Settings of the model request, such as `temperature`, `max_output_tokens`, or `reasoning`."""
    output_schema: JsonObject | None
    """JSON Schema of the final output. The run returns the parsed output in `output_parsed`.
    Null: the output is free text."""
    output_retries: int
    """Maximum number of times that the model may correct an output that does not match
    `output_schema`. If no correction matches, the run ends as `incomplete`."""
    tool_use_behavior: ToolUseMode | StopAtTools
    """What happens after tool calls. `run_llm_again`: the model reads the results.
    `stop_on_first_tool`: the first successful result becomes the run's output. An object: the
    first successful result of a tool in `stop_at` becomes the run's output."""
    on_unknown_tool: FailureMode
    """What happens if the model calls a tool that does not exist. `return_error`: the model
    reads an error message. `fail_run`: the run fails."""
    on_max_turns: MaxTurnsMode | MaxTurnsOutput
    """What happens when the run reaches `limits.max_turns`. `incomplete`: the run ends as
    `incomplete`. `summarise`: the model writes a last answer without tools. `fail`: the run
    fails. An object: the run completes with its `output`."""
    limits: Limits
    """Limits of the run, such as its maximum number of turns."""
    hooks: list[Hook]
    """Hooks that Runward calls before and after each model request and each tool call."""
    guardrails: list[Guardrail]
    """Guardrails that check the run's input, its tool calls, and its final output."""
    history: HistoryLimits
    """Limits on how much of the session's earlier conversation the model sees. By default, the
    model sees all of it."""
    name: str
    """Name of the agent. Unique in the project. Runs use it to refer to the agent."""
    description: str | None
    """Description of the agent, for people and for agents that may hand over a run to this
    agent."""
    metadata: dict[str, JsonValue]
    """Custom metadata: up to 64 keys and 16 KiB as JSON."""
    object: Literal['agent']
    """Always `agent`."""
    version: int
    """Version of the agent. It starts at 1 and grows by 1 with each update."""
    created_at: str
    """When the agent was registered."""
    updated_at: str
    """When this version of the resource was created."""


class AgentList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[Agent]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class AgentTool(TypedDict):
    """A tool that only this run or agent has. Runward never shows the values of its headers."""
    name: str
    """Name of the tool that models use to call it. Unique in the project."""
    description: NotRequired[str]
    """Description of the tool for the model: what the tool does and when to use it."""
    parameters: JsonObject
    """JSON Schema of the arguments. Its type must be `object`. If the arguments of a call do not
    match the schema, Runward does not send the call."""
    output_schema: NotRequired[JsonObject | None]
    """JSON Schema of the result. If a result does not match, the model reads an error. Null:
    results are not validated."""
    type: NotRequired[ToolType]
    """How Runward executes the tool. `webhook`: a signed POST request to `url`. `agent`: a child
    run. `client`: the client runs the tool and submits the result. `hosted`: the model's
    provider runs the tool. `plugin`: a function that is installed with the service. `mcp`: a
    tool of a registered MCP server."""
    url: NotRequired[str | None]
    """URL of a webhook tool, or of the MCP server of a tool of type `mcp`. Null for all other
    types."""
    agent: NotRequired[str | None]
    """Name of the agent that executes the child run. Set only for tools of type `agent`."""
    output: NotRequired[ChildOutput | ChildToolOutput]
    """Which part of the child run becomes the result of a tool of type `agent`. `final`: the
    final output. `json`: the final output parsed as JSON. An object: the last successful
    output of the named tool."""
    response: NotRequired[ToolResponseMode]
    """How Runward reads the response of a webhook tool. `output`: the response is the output of
    the call. `envelope`: requests contain the shared `state`, and the response is an object
    with `output`, `state`, `transfer_to`, `escalate`, and `metadata`, which are all optional."""
    headers: NotRequired[dict[str, str | SecretReference]]
    """HTTP headers that Runward sends with every call. Values are shown as `…`, and references
    to secrets are shown unchanged."""
    strict: NotRequired[bool]
    """Whether the model must follow the schema exactly. If true, all properties are required,
    and additional properties are not allowed. Optional properties become nullable."""
    timeout_seconds: NotRequired[float | None]
    """Timeout of one call in seconds, including all its attempts. Null: the run's
    `limits.tool_timeout_seconds` or, if that is null, the default of the deployment. For
    tools of type `client`, null means no timeout."""
    on_timeout: NotRequired[FailureMode | FailureMessage]
    """What happens after a timeout. `return_error`: the model reads an error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object."""
    on_error: NotRequired[FailureMode | FailureMessage | FailureFunction]
    """What happens after an error. `return_error`: the model reads the error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. A plugin's tool can
    also use a function of the plugin."""
    idempotent: NotRequired[bool]
    """Whether the tool may safely receive the same call more than once. If true, Runward can
    send a call again when its outcome is unknown."""
    on_unknown: NotRequired[UnknownOutcomeMode]
    """What happens if Runward does not know whether a call took effect. `return_error`: the
    model reads an error. `ask`: a person must record the outcome. `fail_run`: the run fails."""
    retry: NotRequired[Retry]
    """How many times Runward retries a call and how long it waits between attempts."""
    approval: NotRequired[ApprovalMode | CelRule | CallableRule]
    """Whether a person must approve each call of the tool: `never`, `always`, or a CEL rule that
    uses `args`, `context`, `run`, and `tool`. A plugin's tool can also use a function of the
    plugin."""
    approval_expires_seconds: NotRequired[float]
    """Number of seconds until an approval expires. When it expires, the model reads that nobody
    decided. Default: 7 days. Maximum: 365 days."""
    reject_message: NotRequired[str | None]
    """Message that the model reads if an approver rejects a call without a message. Null:
    Runward uses a built-in message."""
    enabled: NotRequired[bool | CelRule | CallableRule]
    """Whether models see the tool: true, false, or a CEL rule that Runward evaluates in every
    turn. A plugin's tool can also use a function of the plugin."""
    defer: NotRequired[bool]
    """Whether models see the tool only after they have found it with `search_tools`. If an agent
    has such a tool, Runward gives the model `search_tools`."""
    guardrails: NotRequired[list[Guardrail]]
    """Guardrails that check the calls and results of this tool. Runward signs their webhook
    requests with the tool's secret."""
    concurrency: NotRequired[Concurrency]
    """How many calls of the tool may run at the same time within one run."""
    max_output_bytes: NotRequired[int]
    """Maximum size in bytes of a result that the model reads. If a result is longer, Runward
    stores it in full, and the model reads a truncated version."""
    metadata: NotRequired[dict[str, JsonValue]]
    """Custom metadata of the tool. CEL rules can read it as `tool.metadata`."""
    code: NotRequired[str | None]
    """Digest of a plugin tool's source code, or of the command of an MCP server. A new digest
    creates a new version of the tool. Null for other tools."""
    mcp: NotRequired[McpToolSource | None]
    """MCP server of the tool, and the tool's name on that server. Set only for tools of type
    `mcp`."""
    hosted: NotRequired[HostedTool | None]
    """The tool that the model's provider runs. Set only for tools of type `hosted`."""
    implements: NotRequired[ExecutorKind | None]
    """Kind of tool that providers define and that this webhook or plugin tool runs instead. The
    kind sets the tool's parameters. Calls need approval unless `approval` is set."""
    settings: NotRequired[ComputerSettings | None]
    """Screen of a tool that implements `computer`. Models read the size of the screen. Null:
    models learn the size only from the images."""
    signing_secret: NotRequired[SecretReference | None]
    """Secret of the project that signs the requests of the tool and of its guardrails, in the
    format of Standard Webhooks (`whsec_…`). Null: the project's signing secret signs them."""


class AllowedTools(TypedDict):
    """The registered tools that the model may call."""
    tool_names: list[str]
    """Names of registered tools."""


class Approval(TypedDict):
    """A request for a person's decision on one tool call. The tool `exceed_budget` stands for a
    model request that would exceed a budget."""
    id: str
    """ID of the approval. Use it to submit the decision."""
    object: Literal['approval']
    """Always `approval`."""
    run_id: str
    """ID of the run that made the call."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool that the call is for."""
    tool_version: int
    """Version of the tool that the model saw."""
    url: str | None
    """Full URL to which Runward sends the call after an approval. Null for tools without a URL."""
    arguments: JsonObject
    """Exact arguments of the tool call that needs the decision."""
    omitted_arguments: list[OmittedArgument]
    """Arguments that Runward omitted from `arguments` because of `max_arguments_bytes`."""
    edited_arguments: JsonObject | None
    """Arguments that the approver set. Null for all decisions other than `edit`."""
    digest: str
    """Digest of the tool, its version, its target URL, and the arguments. A decision can include
    the digest. If the call has changed, Runward then refuses the decision."""
    status: ApprovalStatus
    """Status of the approval. It is `pending` until a person decides, the approval expires, the
    run ends, or the tool changes."""
    allowed_decisions: list[DecisionKind]
    """Decisions that this approval allows."""
    path: list[str]
    """Names of the agents of the child runs that lead from the run that a client started to the
    run that made the call. Empty if the client started the run that made the call."""
    agent: str | None
    """Name of the agent that requested the call. Null if the run uses no registered agent."""
    run: RootRun | None
    """The run that a client started. If a child run requested the call, this is the topmost
    ancestor of that child run."""
    model_message: str | None
    """Text of the model response that requested the call, up to 2,000 characters. Null if the
    response has no text."""
    requested_at: str
    """When the approval was created."""
    expires_at: str
    """When the approval expires if nobody decides."""
    decided_at: str | None
    """When the approval was decided or closed. Null while the approval is pending."""
    decided_by: str | None
    """ID of the API key that decided the approval. Null if nobody has decided."""
    decider: Actor | None
    """API key that decided the approval, with its name. Null if nobody has decided."""
    message: str | None
    """Message that the approver sent with the decision. Null if the approver sent no message."""


class ApprovalAction(TypedDict):
    """A tool call that needs a decision. Submit it with `POST
    /v1/approvals/{approval_id}/decision`."""
    type: Literal['approval']
    """Always `approval`."""
    approval_id: str
    """ID of the approval. Use it to submit the decision."""
    run_id: str
    """ID of the run that made the call: this run or one of its child runs at any depth."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool that the call is for."""
    agent: str | None
    """Name of the agent that requested the call. Null if the run uses no registered agent."""
    arguments: JsonObject
    """Exact arguments of the call."""
    digest: str
    """Digest of the tool, its version, its target URL, and the arguments. If a decision includes
    a different digest, Runward refuses the decision."""
    expires_at: str
    """When the approval expires if nobody decides."""
    allowed_decisions: list[DecisionKind]
    """Decisions that this approval allows."""
    path: list[str]
    """Names of the agents of the child runs that lead from this run to the run that made the
    call. Empty if this run made the call."""


class ApprovalDecidedData(TypedDict):
    """Data of a `tool_call.approval_decided` event."""
    approval_id: NotRequired[str]
    """ID of the approval. Missing if Runward applied a remembered decision."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: NotRequired[str]
    """Name of the tool that the call is for."""
    decision: DecisionKind
    """Decision on the tool call."""
    status: NotRequired[ApprovalStatus]
    """Status of the approval after the decision."""
    decided_by: NotRequired[str | None]
    """ID of the API key that decided the approval. Null if nobody has decided."""
    message: NotRequired[str]
    """Message that the approver sent with the decision."""
    arguments: NotRequired[JsonObject | None]
    """New arguments of the call. Set only for the decision `edit`. Null if they are larger than
    32 KiB."""
    arguments_bytes: NotRequired[int]
    """Size of `arguments` in bytes. Set only if `arguments` is too large for the event."""
    truncated: NotRequired[Literal[True]]
    """True if the new arguments are too large for the event. `GET /v1/runs/{run_id}/tool_calls`
    returns the complete arguments."""
    digest: NotRequired[str]
    """Digest of the edited call. Set only for the decision `edit`."""
    remembered: NotRequired[Literal[True]]
    """True if Runward applied a remembered decision and created no approval."""


class ApprovalList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[Approval]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class ApprovalRequestedData(TypedDict):
    """Data of a `tool_call.approval_requested` event."""
    approval_id: str
    """ID of the approval. Use it to submit the decision."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool that the call is for."""
    tool_version: int
    """Version of the tool."""
    arguments: JsonObject | None
    """Exact arguments of the call. Null if they are larger than 32 KiB."""
    arguments_bytes: NotRequired[int]
    """Size of `arguments` in bytes. Set only if `arguments` is too large for the event."""
    truncated: NotRequired[Literal[True]]
    """True if the arguments are too large for the event. `GET /v1/approvals/{approval_id}`
    returns the complete arguments."""
    digest: str
    """Digest of the tool, its version, its target URL, and the arguments."""
    expires_in_seconds: float
    """Number of seconds until the approval expires."""


class ApproveDecision(TypedDict):
    """Approve the call."""
    digest: NotRequired[str | None]
    """Digest of the call that the approver saw. If the call has changed since then, Runward
    refuses the decision with 409. Null: Runward does not check the digest."""
    decision: Literal['approve']
    """`approve`: Runward sends the call unchanged."""
    remember: NotRequired[RememberOptions | None]
    """How the approval applies to later calls. Null: it applies only to this call."""


class AuditActor(TypedDict):
    """Who changed the resource."""
    type: ActorType
    """`key`: a request with an API key. `console_session`: a person in the console. `operator`:
    a command on the database, or the configuration of the deployment."""
    id: str | None
    """ID of the API key. For a console session, the key that the person signed in with. Null for
    operators."""
    name: str | None
    """Name of the API key. Null for operators."""


class AuditEntry(TypedDict):
    """A change of a resource of the project. The entries form a chain: each hash covers the hash
    of the entry before it."""
    id: str
    """ID of the entry."""
    object: Literal['audit_entry']
    """Always `audit_entry`."""
    project_id: str
    """ID of the project."""
    number: int
    """Number of the entry in the chain of the project. It starts at 1 and has no gaps."""
    created_at: str
    """When the resource was changed."""
    actor: AuditActor
    ip_address: str | None
    """IP address of the client. Null outside of requests."""
    request_id: str | None
    """ID of the request, as in its `X-Request-Id` header. Null outside of requests."""
    action: str
    """Type of the resource, and what happened to it, such as `agent.updated`. Later versions add
    actions."""
    resource: AuditedResource
    run_id: str | None
    """ID of the run that the entry belongs to. If the content of the run is erased, `before`,
    `after` and `salt` become null."""
    before: JsonObject | None
    """The resource before the change, without secrets. For an update, only the fields that
    changed. A field of more than 16 KiB is replaced by its digest. Null for a creation, or if
    it was erased."""
    after: JsonObject | None
    """The resource after the change, like `before`. Null for a deletion, or if it was erased."""
    salt: str | None
    """Random text in the digests of `before` and `after`. Null if they are null."""
    before_digest: str | None
    """SHA-256 of the canonical JSON of `[salt, before]`. Null if there was no `before`."""
    after_digest: str | None
    """SHA-256 of the canonical JSON of `[salt, after]`. Null if there was no `after`."""
    previous_hash: str | None
    """`hash` of the previous entry of the project. Null for the first entry."""
    hash: str
    """SHA-256 of the canonical JSON of this entry without `before`, `after`, `salt` and `hash`."""


class AuditEntryList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[AuditEntry]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class AuditHead(TypedDict):
    """The ends of the project's chain. Compare them with an export to notice that entries are
    missing at its end or at its beginning."""
    object: Literal['audit_head']
    """Always `audit_head`."""
    number: int
    """Number of the last entry. 0 if there are no entries."""
    hash: str | None
    """`hash` of the last entry. Null if there are no entries."""
    removed_number: int
    """Number of the last entry that retention has removed. 0 if it has removed none."""
    removed_hash: str | None
    """`hash` of the last entry that retention has removed. It is the `previous_hash` of the
    oldest entry. Null if retention has removed none."""


class AuditedResource(TypedDict):
    """The resource that was changed."""
    type: str
    """Type of the resource, such as `agent` or `webhook_endpoint`."""
    id: str
    """ID of the resource, or its name if it has no ID."""
    version: int | None
    """Version of the resource after the change. After a deletion, the last version. Null for
    resources without versions."""


class Budget(TypedDict):
    """A limit of the cost or the tokens of model requests in each minute, day or month."""
    id: str
    """ID of the budget."""
    object: Literal['budget']
    """Always `budget`."""
    agent: str | None
    """Name of the agent to which the budget applies. Null: all agents."""
    key_id: str | None
    """ID of the API key to whose runs the budget applies. Null: all API keys."""
    period: BudgetPeriod
    """Period after which the budget starts again at zero: a `minute`, a `day` or a `month` in
    UTC."""
    limit_usd: float | None
    """Maximum cost of model requests in each period, in US dollars. Null for budgets of tokens,
    as are all amounts in US dollars."""
    limit_tokens: int | None
    """Maximum number of input and output tokens of model requests in each period. Null for
    budgets of the cost, as are all numbers of tokens."""
    on_limit: BudgetAction
    """What a run does if the budget has no room for its next model request. `wait`: it waits for
    the next period. `ask`: it waits for an approval to exceed the budget until the next
    period."""
    spent_usd: float | None
    """Cost of the model responses of this period, in US dollars."""
    spent_tokens: int | None
    """Tokens of the model requests and responses of this period."""
    reserved_usd: float | None
    """Estimated cost of the model requests that are in flight, in US dollars."""
    reserved_tokens: int | None
    """Estimated tokens of the model requests that are in flight."""
    period_start: str
    """Start of the current period."""
    period_end: str
    """End of the current period."""
    created_at: str
    """When the budget was created."""
    updated_at: str
    """When the budget was last updated."""


class BudgetExceededData(TypedDict):
    """Data of a `budget.exceeded` event. It contains the amounts in US dollars or in tokens."""
    budget_id: str
    """ID of the budget."""
    limit_usd: NotRequired[float]
    """Limit of the budget in US dollars."""
    estimate_usd: NotRequired[float]
    """Estimated cost of the model request in US dollars."""
    limit_tokens: NotRequired[int]
    """Limit of the budget in tokens."""
    estimate_tokens: NotRequired[int]
    """Estimated input and output tokens of the model request."""
    period_ends_at: str
    """End of the budget's current period."""


class BudgetExceededEvent(TypedDict):
    """A budget has no room for the next model request. The run is queued until the budget's
    period ends, or until the budget has room for the request, is raised, or is deleted. If
    the budget asks a person, the run waits for an approval instead."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['budget.exceeded']
    """Always `budget.exceeded`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: BudgetExceededData
    """Data of the event. Its fields depend on the event's type."""


class BudgetList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[Budget]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class CachedPromptTokens(TypedDict):
    """Details of the input tokens."""
    cached_tokens: int
    """Number of input tokens that the provider read from its cache."""


class CallError(TypedDict):
    """The error of a tool call that did not succeed."""
    code: str
    """Stable code of the error. It is the call's `reason` or, if `reason` is null, the call's
    `outcome`."""
    message: str
    """Description of the error, for operators. It contains up to 500 characters of the call's
    `detail` or, if `detail` is null, of the call's output."""


class CallStatistics(TypedDict):
    """Statistics of the tool's newest 100 calls."""
    calls: int
    """Number of calls in the statistics, from 0 to 100."""
    failed: int
    """Number of calls in the statistics that failed, timed out, or have an unknown outcome."""
    timed: int
    """Number of calls in the statistics that were sent and have ended. The percentiles cover
    only these calls."""
    p50_ms: float | None
    """Median duration of the calls in milliseconds. Null if no call has a duration."""
    p95_ms: float | None
    """95th percentile of the calls' durations in milliseconds. Null if no call has a duration."""


class CallableRule(TypedDict):
    """A plugin function that returns true or false in place of a CEL expression. Only the code
    of a plugin can set this rule."""
    callable: str
    """Path of the plugin's function, as `package.module:function`."""


class CallbackAddress(TypedDict):
    """Callback address of a call. A tool that returns 202 submits the result to this address."""
    url: str
    """URL for POST requests with a Callback as body. No API key is needed."""
    token: str
    """Callback token, which is the last segment of the URL."""


class CallbackCompleted(TypedDict):
    """The result of a call. Only tools with `"response": "envelope"` can set other fields than
    `output`."""
    status: Literal['completed']
    """`completed`: the tool has finished and returns the result."""
    output: JsonValue
    """Result of the call: any JSON value."""
    state: NotRequired[JsonObject | None]
    """Changes to the state of the session or, without a session, of the run. Null removes a key.
    Null instead of an object: the state does not change."""
    transfer_to: NotRequired[str | None]
    """Name of the agent that continues the run. It must be one of the `handoffs` of the current
    agent. Null: the current agent continues."""
    escalate: NotRequired[bool]
    """Whether the current agent ends after this turn. Default: false."""
    metadata: NotRequired[JsonObject | None]
    """Metadata of the call. Runward stores it and never shows it to the model. Null: no
    metadata."""


class CallbackFailed(TypedDict):
    """The failure of a call."""
    status: Literal['failed']
    """`failed`: the tool failed and has no result."""
    message: str
    """Error message that the model reads."""


class CallbackInputRequired(TypedDict):
    """The tool needs more input from the client that started the run."""
    status: Literal['input_required']
    """`input_required`: the tool needs input from the client."""
    requests: JsonValue
    """Description of the input that the tool needs, as text or as JSON that the client
    understands. At most 64 KiB as JSON."""
    state: NotRequired[JsonValue]
    """State that Runward returns to the tool unchanged together with the input. At most 64 KiB
    as JSON."""


class CallbackProgress(TypedDict):
    """Progress of a call that the tool is still working on."""
    status: Literal['progress']
    """`progress`: the tool is still working."""
    progress: NotRequired[float | None]
    """Progress from 0 to 1. Null if the progress is unknown."""
    message: NotRequired[str | None]
    """Progress message for the event log. The model does not see it."""


class CallbackReceipt(TypedDict):
    """Runward has accepted the callback."""
    accepted: Literal[True]
    """Always true."""


class CallbackWait(TypedDict):
    """A tool call whose tool will send the result to the callback URL. No person or client has
    to act."""
    type: Literal['callback']
    """Always `callback`."""
    run_id: str
    """ID of the run that made the call: this run or one of its child runs at any depth."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool that was called."""
    arguments: JsonObject
    """Arguments of the call."""
    deadline_at: str | None
    """When the call times out if no callback arrives. Null: the call has no timeout, and Runward
    waits until the run ends."""
    path: list[str]
    """Names of the agents of the child runs that lead from this run to the run that made the
    call. Empty if this run made the call."""


class CancelRun(TypedDict):
    """Options for canceling a run. If there is no body, the mode is `immediate`."""
    mode: NotRequired[CancelMode]
    """`immediate`: the run ends before Runward responds, and running calls are recorded as
    cancelled. `after_turn`: the model's current response and the calls that have started can
    finish first. Default: `immediate`."""


class Capabilities(TypedDict):
    """Capabilities of this deployment."""
    object: Literal['capabilities']
    """Always `capabilities`."""
    version: str
    """Version of Runward."""
    tool_types: list[str]
    """Types of tools that this deployment can run."""
    builtin_tools: list[str]
    """Names of the built-in tools."""
    agent_kinds: list[AgentKind]
    """Kinds of agents that can be registered."""
    guardrail_stages: list[GuardrailStage]
    """Stages at which guardrails can be called."""
    hooks: list[HookPoint]
    """Points at which hooks can be called."""
    plugins: LoadedPlugins
    mcp: McpCapabilities
    model_providers: list[str]
    """Names of the available model providers. In a model name, the provider's name precedes the
    colon."""
    models: dict[str, ModelCapabilities]
    """Features of the models, by provider."""
    responses_api: bool
    """Whether the `/v1/responses` API is available."""
    scopes: list[Scope]
    """Scopes of the API key that sent the request."""


class CelRule(TypedDict):
    """A rule in CEL (Common Expression Language). It can use `args`, `context`, `run`, and
    `tool`, and must evaluate to true or false."""
    when: str
    """CEL expression that evaluates to true or false. It can use `args`, `context`, `run`, and
    `tool`."""


class CelRuleInput(TypedDict):
    """A rule in CEL (Common Expression Language). It can use `args`, `context`, `run`, and
    `tool`, and must evaluate to true or false."""
    when: str
    """CEL expression that evaluates to true or false. It can use `args`, `context`, `run`, and
    `tool`."""


class ChatCompletion(TypedDict):
    """A chat completion: a run, up to its end or to its first calls of client functions."""
    id: str
    """ID of the completion. It contains the hexadecimal digits of the run's ID."""
    created: int
    """When the run was created, as a Unix timestamp in seconds."""
    model: str
    """Name of the model or the registered agent, as in the request."""
    service_tier: None
    """Always null."""
    system_fingerprint: None
    """Always null."""
    object: Literal['chat.completion']
    """Always `chat.completion`."""
    choices: list[CompletionChoice]
    """List with one choice."""
    usage: CompletionUsage
    """Number of tokens that all turns of the run used."""


class ChatCompletionChunk(TypedDict):
    """A chunk of a streamed chat completion."""
    id: str
    """ID of the completion. It contains the hexadecimal digits of the run's ID."""
    created: int
    """When the run was created, as a Unix timestamp in seconds."""
    model: str
    """Name of the model or the registered agent, as in the request."""
    service_tier: None
    """Always null."""
    system_fingerprint: None
    """Always null."""
    object: Literal['chat.completion.chunk']
    """Always `chat.completion.chunk`."""
    choices: list[ChatCompletionChunkChoice]
    """List with one choice. Empty in the chunk with the usage."""
    usage: CompletionUsage | None
    """Number of tokens that all turns of the run used. Set only in the chunk after the last
    choice, and only with `stream_options.include_usage`."""


class ChatCompletionChunkChoice(TypedDict):
    """A change of the completion's choice."""
    index: Literal[0]
    delta: JsonObject
    """Fields of the message that this chunk adds: `role`, `content`, `refusal` or `tool_calls`."""
    logprobs: None
    """Always null."""
    finish_reason: CompletionFinishReason | None
    """Why the completion ended. Null in all chunks except the last one."""


class ChildToolOutput(TypedDict):
    """Use the last successful output of one of the child run's tools as the result."""
    tool: str
    """Name of the child run's tool whose output becomes the result."""


class ChildToolOutputInput(TypedDict):
    """Use the last successful output of one of the child run's tools as the result."""
    tool: str
    """Name of the child run's tool whose output becomes the result."""


class ClassPreview(TypedDict):
    """The rows of one class that Runward would remove now."""
    rows: int
    """Number of runs, events, tool calls, deliveries or audit entries."""
    more: bool
    """Whether there are more rows than were counted. Runward counts about 10,000."""
    oldest_at: str | None
    """End of the oldest of these runs, or creation of the oldest of these deliveries or audit
    entries. Null if there are none."""


class ClassRetention(TypedDict):
    """The retention of one class of data."""
    days: int | None
    """Number of days for which Runward keeps the data. Null: forever."""
    is_default: bool
    """Whether the project has not chosen a number of days."""
    default_days: int | None
    """Number of days in projects that have not chosen one. Null: forever."""
    max_days: int | None
    """Largest number of days that the project can choose. Null: any number, and forever."""


class CompactResponse(TypedDict):
    """A conversation to compact."""
    model: str
    """Name of a registered agent, or a model as `provider:model`."""
    input: NotRequired[str | list[ResponseInputItem]]
    """Conversation to compact: a string, or items of a conversation."""
    previous_response_id: NotRequired[str | None]
    """ID of a response. Runward compacts its conversation together with the input. Null: Runward
    compacts only the input."""
    prompt_cache_key: NotRequired[str | None]
    """Key for the provider's prompt cache. Accepted but ignored."""


class Compaction(TypedDict):
    """A compacted conversation."""
    id: str
    """ID of the compaction (`cmp_…`)."""
    object: Literal['response.compaction']
    """Always `response.compaction`."""
    created_at: int
    """When the compaction was created, as a Unix timestamp in seconds."""
    output: list[JsonObject]
    """List of one item with the type `compaction`. Send the item as input in place of the
    conversation."""
    usage: JsonObject
    """Number of tokens used. All numbers are 0, because no model is called."""


class CompletedResolution(TypedDict):
    """Record that the call took effect, together with its output."""
    resolution: Literal['completed']
    """`completed`: the call took effect."""
    output: JsonValue
    """Output of the call. The model reads it."""


class CompletionCallFunction(TypedDict):
    """The function of a call and its arguments."""
    name: str
    """Name of the function."""
    arguments: str
    """Arguments of the call: a JSON object as text."""


class CompletionChoice(TypedDict):
    """The result of a completion."""
    index: Literal[0]
    message: CompletionMessage
    """Message of the completion."""
    logprobs: None
    """Always null."""
    finish_reason: CompletionFinishReason
    """Why the completion ended. `stop`: the run has completed. `tool_calls`: the client must run
    functions. `content_filter`: a guardrail ended the run. `length`: another limit ended the
    run."""


class CompletionFormatJsonSchema(TypedDict):
    """Output format with a schema. If the output does not match the schema, the model may
    correct the output once."""
    type: Literal['json_schema']
    """Always `json_schema`."""
    json_schema: CompletionJsonSchema
    """The schema and its name."""


class CompletionFunction(TypedDict):
    """A function that the client runs."""
    name: str
    """Name of the function. The model uses this name to call the function."""
    description: NotRequired[str]
    """Description of the function for the model: what the function does and when to use it.
    Default: an empty string."""
    parameters: NotRequired[JsonObject | None]
    """JSON Schema of the arguments. Its type must be `object`. Null: the function has no
    arguments."""
    strict: NotRequired[bool]
    """Whether the model must follow the schema exactly. Default: false."""


class CompletionFunctionTool(TypedDict):
    """A function that the client runs."""
    type: Literal['function']
    """Always `function`."""
    function: CompletionFunction
    """The function: its name, its description, and its parameters."""


class CompletionJsonSchema(TypedDict):
    """A named JSON Schema."""
    name: NotRequired[str]
    """Name of the schema. Accepted but ignored. Default: an empty string."""
    description: NotRequired[str | None]
    """Description of the schema. Accepted but ignored."""
    schema: JsonObject
    """JSON Schema that the output must match."""
    strict: NotRequired[bool | None]
    """Accepted but ignored. Runward always validates the output against the schema."""


class CompletionMessage(TypedDict):
    """The message of a completion."""
    role: Literal['assistant']
    """Always `assistant`."""
    content: str | None
    """Texts of all turns of the run, separated by empty lines. If the output must be JSON, this
    is only the output. Null if there is no text."""
    refusal: str | None
    """Refusal of the model. Null if the model did not refuse."""
    tool_calls: list[CompletionToolCall] | None
    """Calls that the client must run. Null if there are none."""


class CompletionReasoningTokens(TypedDict):
    """Details of the output tokens."""
    reasoning_tokens: int
    """Number of output tokens of the model's reasoning."""


class CompletionStreamOptions(TypedDict):
    """Options of the stream."""
    include_usage: NotRequired[bool]
    """Whether the last chunk of the stream contains the usage. Default: false."""
    include_obfuscation: NotRequired[Literal[False]]
    """Whether chunks have random padding. Runward supports only false."""


class CompletionToolCall(TypedDict):
    """A call of a function that the client must run."""
    id: str
    """ID of the call. The message of the role `tool` with the result refers to it."""
    type: Literal['function']
    """Always `function`."""
    function: CompletionCallFunction
    """The function and its arguments."""


class CompletionUsage(TypedDict):
    """Number of tokens that all turns of a run used."""
    prompt_tokens: int
    """Number of input tokens."""
    completion_tokens: int
    """Number of output tokens."""
    total_tokens: int
    """Number of input and output tokens."""
    prompt_tokens_details: CachedPromptTokens
    completion_tokens_details: CompletionReasoningTokens


class ComputerSettings(TypedDict):
    """The screen that an executor of the kind `computer` controls."""
    display_width: int
    """Width of the screen in pixels."""
    display_height: int
    """Height of the screen in pixels."""
    environment: NotRequired[ComputerEnvironment]
    """Kind of environment that the screen shows."""


class ComputerSettingsInput(TypedDict):
    """The screen that an executor of the kind `computer` controls."""
    display_width: int
    """Width of the screen in pixels."""
    display_height: int
    """Height of the screen in pixels."""
    environment: NotRequired[ComputerEnvironment]
    """Kind of environment that the screen shows. Default: `browser`."""


class Concurrency(TypedDict):
    """How many calls of a tool, or of a group of tools, may run at the same time within one run."""
    limit: NotRequired[int]
    """Maximum number of calls of the tool, or of the group, that run at the same time."""
    group: NotRequired[str | None]
    """Name of a group of tools that share the limit. If their limits differ, the lowest limit of
    the calls that run applies. Null: the limit applies to this tool alone."""
    serial: NotRequired[bool]
    """Whether a call of the tool runs alone: after all earlier calls of the run, and before all
    later ones."""


class ConcurrencyInput(TypedDict):
    """How many calls of a tool, or of a group of tools, may run at the same time within one run."""
    limit: NotRequired[int]
    """Maximum number of calls of the tool, or of the group, that run at the same time. Default:
    8."""
    group: NotRequired[str | None]
    """Name of a group of tools that share the limit. If their limits differ, the lowest limit of
    the calls that run applies. Null: the limit applies to this tool alone."""
    serial: NotRequired[bool]
    """Whether a call of the tool runs alone: after all earlier calls of the run, and before all
    later ones. Default: false."""


class ConcurrencyLimit(TypedDict):
    """The maximum number of running runs of one agent, that can call one tool, or with the same
    value of a key. Exactly one of `agent`, `tool` and `key` must be set."""
    agent: NotRequired[str | None]
    """Name of the agent. It does not have to be registered yet."""
    tool: NotRequired[str | None]
    """Name of a tool. The limit applies to runs whose agents have this tool, whether or not they
    call it."""
    key: NotRequired[str | None]
    """CEL expression that returns a string, a number, true or false, such as
    `run.metadata.customer`. Runs with the same value are limited together. The expression can
    use `context` and `run` with `agent`, `key_id`, `metadata` and `session_id`. Runward
    evaluates it when a run is accepted. Runs for which it has no result are also limited
    together."""
    max: int
    """Maximum number of these runs that run at the same time."""


class ConcurrencyLimitInput(TypedDict):
    """The maximum number of running runs of one agent, that can call one tool, or with the same
    value of a key. Exactly one of `agent`, `tool` and `key` must be set."""
    agent: NotRequired[str | None]
    """Name of the agent. It does not have to be registered yet."""
    tool: NotRequired[str | None]
    """Name of a tool. The limit applies to runs whose agents have this tool, whether or not they
    call it."""
    key: NotRequired[str | None]
    """CEL expression that returns a string, a number, true or false, such as
    `run.metadata.customer`. Runs with the same value are limited together. The expression can
    use `context` and `run` with `agent`, `key_id`, `metadata` and `session_id`. Runward
    evaluates it when a run is accepted. Runs for which it has no result are also limited
    together."""
    max: int
    """Maximum number of these runs that run at the same time."""


class ContinueRun(TypedDict):
    """How to continue a run that a limit has ended."""
    max_turns: NotRequired[int | None]
    """Maximum number of additional turns. Null: the `max_turns` of the previous run."""
    input: NotRequired[str | list[InputMessage] | None]
    """Message that the model reads before the run continues. Null: no message."""


class Conversation(TypedDict):
    """A session, in OpenAI's format."""
    id: str
    """ID of the conversation. It contains the digits of the session's ID."""
    object: Literal['conversation']
    """Always `conversation`."""
    created_at: int
    """When the conversation was created, as a Unix timestamp in seconds."""
    metadata: dict[str, str]
    """Custom metadata of the conversation."""


class ConversationItemList(TypedDict):
    """Items of a conversation."""
    object: Literal['list']
    """Always `list`."""
    data: list[JsonObject]
    """Items in the requested order."""
    first_id: str | None
    """ID of the first item. Null if the page is empty."""
    last_id: str | None
    """ID of the last item. Null if the page is empty."""
    has_more: bool
    """Whether there are more items after this page."""


class CountInputTokens(TypedDict):
    """A request for a response. Runward counts its input tokens."""
    input: NotRequired[str | list[ResponseInputItem]]
    """Input of the response: a string, or items of a conversation."""
    instructions: NotRequired[str | None]
    """Instructions that the model reads before the input. If `model` is a registered agent, they
    follow the agent's instructions."""
    previous_response_id: NotRequired[str | None]
    """ID of the response to continue. Null: Runward starts a new conversation."""
    conversation: NotRequired[str | ResponseConversation | None]
    """Conversation or session of the response: its ID (`conv_…` or `sess_…`), or an object with
    the ID. Null: the response belongs to none."""
    tools: NotRequired[list[ResponseTool] | None]
    """Functions that the client runs, and registered tools that Runward runs."""
    tool_choice: NotRequired[ToolChoiceMode | ResponseToolChoice | None]
    """Whether the model may (`auto`), must not (`none`), or must (`required`) call a tool. An
    object names the tool that the model must call."""
    parallel_tool_calls: NotRequired[bool | None]
    """Whether the model may request several tool calls in one turn."""
    text: NotRequired[ResponseTextConfig | None]
    """Settings of the model's text output, such as its format."""
    reasoning: NotRequired[ReasoningConfig | None]
    """Settings of the model's reasoning, such as its effort."""
    truncation: NotRequired[Truncation]
    """What happens if the input exceeds the model's context window. `auto`: Runward drops the
    oldest items. `disabled`: the model's provider refuses the request, and the run fails.
    Default: `disabled`."""
    model: NotRequired[str]
    """Name of a registered agent, or a model as `provider:model`. For an agent, Runward also
    counts its instructions and tools. Empty: Runward counts only the parameters of the
    request. Default: an empty string."""


class CreateBudget(TypedDict):
    """A budget to create. It can have `agent` or `key_id`, but not both. Without them, it
    applies to all runs of the project."""
    agent: NotRequired[str | None]
    """Name of an agent, which does not have to be registered yet. The budget applies to the
    model requests of this agent, also in child runs and after handoffs. Null: the budget
    applies to all agents."""
    key_id: NotRequired[str | None]
    """ID of an API key of the project. The budget applies to the runs that this key starts.
    Null: the budget applies to all API keys."""
    period: NotRequired[BudgetPeriod]
    """Period after which the budget starts again at zero: a `minute`, a `day` or a `month` in
    UTC. Default: `day`."""
    limit_usd: NotRequired[float | None]
    """Maximum cost of model requests in each period, in US dollars. A budget has either
    `limit_usd` or `limit_tokens`."""
    limit_tokens: NotRequired[int | None]
    """Maximum number of input and output tokens of model requests in each period."""
    on_limit: NotRequired[BudgetAction]
    """What a run does if the budget has no room for its next model request. `wait`: it waits for
    the next period. `ask`: it waits for an approval to exceed the budget until the next
    period. Default: `wait`."""


class CreateChatCompletion(TypedDict):
    """A chat completion to create: a run of a registered agent or of a model."""
    model: str
    """Name of a registered agent, or a model as `provider:model`."""
    messages: list[InputMessage]
    """Messages of the conversation. Runward does not run the tool calls in these messages. Each
    of them must have a result, which is a later message of the role `tool`."""
    tools: NotRequired[list[CompletionTool] | None]
    """Functions that the client runs, and registered tools that Runward runs."""
    tool_choice: NotRequired[ToolChoiceMode | NestedFunctionToolChoice | None]
    """Whether the model may (`auto`), must not (`none`), or must (`required`) call a tool. An
    object names the tool that the model must call."""
    parallel_tool_calls: NotRequired[bool | None]
    """Whether the model may request several tool calls in one turn."""
    response_format: NotRequired[CompletionFormat | None]
    """Format of the output. Null: text. A schema is not allowed if `model` is an agent with its
    own output schema."""
    max_completion_tokens: NotRequired[int | None]
    """Maximum number of output tokens in each turn. Sets `model_settings.max_output_tokens`.
    Null: the value of `max_tokens`."""
    max_tokens: NotRequired[int | None]
    """Older name of `max_completion_tokens`. Null: the provider's default."""
    temperature: NotRequired[float | None]
    """Sampling temperature. Sets `model_settings.temperature`. Null: the provider's default."""
    top_p: NotRequired[float | None]
    """Nucleus sampling probability. Sets `model_settings.top_p`. Null: the provider's default."""
    presence_penalty: NotRequired[float | None]
    """Presence penalty. Sets `model_settings.presence_penalty`. Null: the provider's default."""
    frequency_penalty: NotRequired[float | None]
    """Frequency penalty. Sets `model_settings.frequency_penalty`. Null: the provider's default."""
    stop: NotRequired[str | list[str] | None]
    """Texts at which the model stops. Sets `model_settings.stop`. Null: no such text."""
    seed: NotRequired[int | None]
    """Seed of the sampling. Sets `model_settings.seed`. Null: no seed."""
    reasoning_effort: NotRequired[str | None]
    """Amount of reasoning. Sets `model_settings.reasoning.effort`. Null: the provider's default."""
    verbosity: NotRequired[Verbosity | None]
    """How detailed the model's answer should be. Sets `model_settings.verbosity`. Null: the
    provider's default."""
    user: NotRequired[str | None]
    """Identifier of the end user. Sets `model_settings.user`. Null: Runward sends no identifier."""
    safety_identifier: NotRequired[str | None]
    """Identifier of the end user for safety checks. Sets `model_settings.safety_identifier`.
    Null: Runward sends no identifier."""
    prompt_cache_key: NotRequired[str | None]
    """Key for the provider's prompt cache. Sets `model_settings.prompt_cache_key`. Null: Runward
    sends no key."""
    service_tier: NotRequired[str | None]
    """Service tier of the provider. Sets `model_settings.service_tier`. Runward does not send
    `auto` and `default` to the provider. Null: the provider's default."""
    metadata: NotRequired[dict[str, str] | None]
    """Custom metadata of the run: up to 16 keys of 64 characters, and text values of 512
    characters. Null: no metadata."""
    stream: NotRequired[bool | None]
    """Whether to return a stream of chunks instead of one JSON object. Null: false."""
    stream_options: NotRequired[CompletionStreamOptions | None]
    """Options of the stream. Null: the defaults."""
    n: NotRequired[Literal[1] | None]
    """Number of choices. Runward supports only 1. Null: 1."""
    logprobs: NotRequired[Literal[False] | None]
    """Whether to return log probabilities. Runward supports only false. Null: false."""
    top_logprobs: NotRequired[Literal[0] | None]
    """Number of log probabilities. Runward supports only 0. Null: 0."""
    modalities: NotRequired[list[Literal['text']] | None]
    """Kinds of output. Runward supports only text. Null: text."""
    store: NotRequired[bool | None]
    """Whether to keep the content of the completion. If false, Runward erases it after the run
    has ended. The run's ID, agent, model, status, times, usage and cost are kept. Null: true."""


class CreateConversation(TypedDict):
    """A conversation to create."""
    items: NotRequired[list[ResponseInputItem]]
    """First items of the conversation, at most 20."""
    metadata: NotRequired[dict[str, str]]
    """Custom metadata: up to 16 keys of 64 characters, and text values of 512 characters."""


class CreateConversationItems(TypedDict):
    """Items to append to a conversation."""
    items: list[ResponseInputItem]
    """Items to append, at most 20."""


class CreateErasure(TypedDict):
    """The data to erase."""
    metadata: dict[str, JsonValue]
    """Metadata of the runs and sessions to erase. Their metadata has all of these keys with
    exactly these values, and can have other keys."""


class CreateKey(TypedDict):
    """An API key to create."""
    name: str
    """Name of the API key. Choose a name that describes the purpose of the key."""
    scopes: list[Scope]
    """Scopes of the new API key. The API key of the request must have all of these scopes."""
    expires_at: NotRequired[str | None]
    """When the API key expires, as a timestamp with an offset from UTC. Null: the key does not
    expire."""


class CreateProject(TypedDict):
    """A project to create. Each project has its own tools, runs, and API keys."""
    name: str
    """Name of the project."""


class CreateResponse(TypedDict):
    """A response to create: a run of a registered agent or of a model."""
    input: NotRequired[str | list[ResponseInputItem]]
    """Input of the response: a string, or items of a conversation."""
    instructions: NotRequired[str | None]
    """Instructions that the model reads before the input. If `model` is a registered agent, they
    follow the agent's instructions."""
    previous_response_id: NotRequired[str | None]
    """ID of the response to continue. Null: Runward starts a new conversation."""
    conversation: NotRequired[str | ResponseConversation | None]
    """Conversation or session of the response: its ID (`conv_…` or `sess_…`), or an object with
    the ID. Null: the response belongs to none."""
    tools: NotRequired[list[ResponseTool] | None]
    """Functions that the client runs, and registered tools that Runward runs."""
    tool_choice: NotRequired[ToolChoiceMode | ResponseToolChoice | None]
    """Whether the model may (`auto`), must not (`none`), or must (`required`) call a tool. An
    object names the tool that the model must call."""
    parallel_tool_calls: NotRequired[bool | None]
    """Whether the model may request several tool calls in one turn."""
    text: NotRequired[ResponseTextConfig | None]
    """Settings of the model's text output, such as its format."""
    reasoning: NotRequired[ReasoningConfig | None]
    """Settings of the model's reasoning, such as its effort."""
    truncation: NotRequired[Truncation]
    """What happens if the input exceeds the model's context window. `auto`: Runward drops the
    oldest items. `disabled`: the model's provider refuses the request, and the run fails.
    Default: `disabled`."""
    model: str
    """Name of a registered agent, or a model as `provider:model`."""
    max_tool_calls: NotRequired[int | None]
    """Maximum number of tool calls. Sets `limits.max_tool_calls`. Null: the default of
    `limits.max_tool_calls`."""
    temperature: NotRequired[float | None]
    """Sampling temperature. Sets `model_settings.temperature`. Null: the provider's default."""
    top_p: NotRequired[float | None]
    """Nucleus sampling probability. Sets `model_settings.top_p`. Null: the provider's default."""
    presence_penalty: NotRequired[float | None]
    """Presence penalty. Sets `model_settings.presence_penalty`. Null: the provider's default."""
    frequency_penalty: NotRequired[float | None]
    """Frequency penalty. Sets `model_settings.frequency_penalty`. Null: the provider's default."""
    max_output_tokens: NotRequired[int | None]
    """Maximum number of output tokens in each turn. Sets `model_settings.max_output_tokens`.
    Null: the provider's default."""
    user: NotRequired[str | None]
    """Identifier of the end user. Sets `model_settings.user`. Null: Runward sends no identifier."""
    safety_identifier: NotRequired[str | None]
    """Identifier of the end user for safety checks. Sets `model_settings.safety_identifier`.
    Null: Runward sends no identifier."""
    prompt_cache_key: NotRequired[str | None]
    """Key for the provider's prompt cache. Sets `model_settings.prompt_cache_key`. Null: Runward
    sends no key."""
    service_tier: NotRequired[str | None]
    """Service tier of the provider. Sets `model_settings.service_tier`. Runward does not send
    `auto` and `default` to the provider. Null: the provider's default."""
    metadata: NotRequired[dict[str, str]]
    """Custom metadata of the response and its run: up to 16 keys of at most 64 characters, with
    string values of at most 512 characters."""
    stream: NotRequired[bool]
    """Whether to return a stream of events instead of one JSON object. Default: false."""
    background: NotRequired[bool]
    """Whether to respond immediately, before the run has ended. Default: false."""
    store: NotRequired[bool]
    """Whether to store the response. If false, nobody can retrieve the response, and Runward
    erases its content after it has ended. The run's ID, agent, model, status, times, usage
    and cost are kept. Not allowed together with `background` or `conversation`. Default:
    true."""
    include: NotRequired[list[ResponseInclude]]
    """Additional output data. `reasoning.encrypted_content` adds the encrypted reasoning.
    Runward accepts the other values but has no such data."""
    top_logprobs: NotRequired[int]
    """Number of log probabilities. Runward supports only 0. Default: 0."""
    stream_options: NotRequired[StreamOptions]


class CreateSchedule(TypedDict):
    """A schedule to create. It must have exactly one of `cron`, `at` and `after_seconds`."""
    name: str
    """Name of the schedule, for people."""
    cron: NotRequired[str | None]
    """Cron expression with five fields: minute, hour, day of month, month, and day of week.
    Null: the schedule starts one run."""
    time_zone: NotRequired[str | None]
    """Time zone of `cron`, as a name of the IANA time zone database. Null: `UTC`."""
    at: NotRequired[str | None]
    """Time of the only run. It must be in the future, by at most ten years."""
    after_seconds: NotRequired[int | None]
    """Seconds until the only run, counted from this request."""
    run: StartRun
    """Request of each run, as in `POST /v1/runs`. Runward validates it now, and again for each
    slot. At most 64 KiB as JSON."""
    overlap: NotRequired[ScheduleOverlap]
    """What happens at a slot if a run of an earlier slot has not ended. `skip`: the slot starts
    no run. `queue`: the new run waits until the earlier runs have ended. `replace`: Runward
    cancels the earlier runs. Default: `skip`."""
    misfires: NotRequired[ScheduleMisfires]
    """What happens with slots for which no worker was available for more than a minute. `skip`:
    they start no run. `once`: only the newest of them starts a run. `all`: the newest 100 of
    them start runs, oldest first. Default: `once`."""
    enabled: NotRequired[bool]
    """Whether the schedule starts runs. Default: true."""


class CreateSession(TypedDict):
    """A session to create."""
    name: NotRequired[str | None]
    """Name of the session, for people. Null: no name."""
    metadata: NotRequired[dict[str, JsonValue]]
    """Custom metadata: up to 64 keys and 16 KiB as JSON."""
    state: NotRequired[JsonObject]
    """State that the session's runs and their tools share: a JSON object of up to 64 KiB. Models
    do not see it."""
    on_conflict: NotRequired[ConflictMode]
    """What happens to a run that is started while another run of the session is open. `queue`:
    the new run waits. `reject`: the new run is refused with 409. `cancel_previous`: the
    earlier open runs are cancelled. Default: `queue`."""


class CreateWebhookEndpoint(TypedDict):
    """A webhook endpoint to create."""
    url: str
    """URL that receives the notifications. Runward checks its address before each attempt."""
    description: NotRequired[str]
    """Description for people. Default: an empty string."""
    events: NotRequired[list[NotificationPattern]]
    """Types of the notifications. `run.*` selects all types that begin with `run.`, and `*`
    selects all types. Default: ["*"]."""
    include: NotRequired[list[Literal['output']]]
    """Content that the notifications contain. `output`: the output or the error message of a run
    that has ended. Default: an empty list."""
    enabled: NotRequired[bool]
    """Whether the endpoint receives notifications. Default: true."""


class DeletedConversation(TypedDict):
    """A deleted conversation."""
    id: str
    """ID of the conversation."""
    object: Literal['conversation.deleted']
    """Always `conversation.deleted`."""
    deleted: Literal[True]
    """Always true."""


class DeletedResponse(TypedDict):
    """A deleted response."""
    id: str
    """ID of the response."""
    object: Literal['response']
    """Always `response`."""
    deleted: Literal[True]
    """Always true."""


class EditDecision(TypedDict):
    """Approve the call with other arguments."""
    digest: NotRequired[str | None]
    """Digest of the call that the approver saw. If the call has changed since then, Runward
    refuses the decision with 409. Null: Runward does not check the digest."""
    decision: Literal['edit']
    """`edit`: Runward sends the call with other arguments."""
    arguments: JsonObject
    """Complete new arguments. Runward validates them against the tool's schema."""
    message: NotRequired[str | None]
    """Reason for the edit. It is recorded in the event log."""


class EmptyData(TypedDict):
    """Empty data. The event's type contains all the information."""


class Erasure(TypedDict):
    """An erasure of all runs and sessions with the same metadata. It does not show this
    metadata, and Runward deletes it at the end of the erasure."""
    id: str
    """ID of the erasure."""
    object: Literal['erasure']
    """Always `erasure`."""
    status: ErasureStatus
    """Status of the erasure."""
    runs_erased: int
    """Number of erased runs, without their child runs."""
    sessions_deleted: int
    """Number of deleted sessions."""
    held: int
    """Number of runs and sessions that were not erased because of a legal hold. Delete the hold
    and create another erasure."""
    created_at: str
    """When the erasure was requested."""
    ended_at: str | None
    """When all runs and sessions had been processed. Null before."""


class EventList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[Event]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class FailedResolution(TypedDict):
    """Record that the call did not take effect."""
    resolution: Literal['failed']
    """`failed`: the call did not take effect."""
    message: str
    """Error message that the model reads."""


class FailureFunction(TypedDict):
    """A plugin function that returns the message for the model, or raises an exception to fail
    the run. Only the code of a plugin can set it."""
    callable: str
    """Path of the plugin's function, as `package.module:function`."""


class FailureMessage(TypedDict):
    """A custom message for the model that replaces the built-in one."""
    message: str
    """Message that the model reads."""


class FailureMessageInput(TypedDict):
    """A custom message for the model that replaces the built-in one."""
    message: str
    """Message that the model reads."""


class ForkSession(TypedDict):
    """Options for forking a session."""
    run_id: NotRequired[str | None]
    """ID of the last run whose items the fork contains. Null: all runs that have ended."""
    name: NotRequired[str | None]
    """Name of the new session. Null: the name of the original session."""


class FunctionDefinition(TypedDict):
    """A function in the format of OpenAI's APIs."""
    name: str
    """Name of the tool that models use to call it. Unique in the project."""
    description: NotRequired[str | None]
    """Description of the tool for the model: what the tool does and when to use it. Null: no
    description."""
    parameters: NotRequired[JsonObject | None]
    """JSON Schema of the arguments. Its type must be `object`. Null or an empty object: the tool
    has no arguments."""
    strict: NotRequired[bool | None]
    """Whether the model must follow the schema exactly: all properties are required, and no
    others are allowed. Null: false, as in OpenAI's Chat Completions API."""


class FunctionName(TypedDict):
    """The name of a function, as in OpenAI's Chat Completions API."""
    name: str
    """Name of the tool that the model must call."""


class FunctionTool(TypedDict):
    """A tool in the format of OpenAI's Responses API. With a `url`, it is a tool of type
    `webhook`. Without a `url`, it is a tool of type `client`. All other options of these
    types are allowed."""
    output_schema: NotRequired[JsonObject | None]
    """JSON Schema of the result. If a result does not match, the model reads an error. Null:
    results are not validated."""
    url: NotRequired[str | None]
    """URL of a webhook tool, or of the MCP server of a tool of type `mcp`. Null for all other
    types."""
    response: NotRequired[ToolResponseMode]
    """How Runward reads the response of a webhook tool. `output`: the response is the output of
    the call. `envelope`: requests contain the shared `state`, and the response is an object
    with `output`, `state`, `transfer_to`, `escalate`, and `metadata`, which are all optional.
    Default: `output`."""
    headers: NotRequired[dict[str, str | SecretReferenceInput]]
    """HTTP headers that Runward sends with every call. A string is stored encrypted and never
    shown again. An object refers to a secret of the project."""
    timeout_seconds: NotRequired[float | None]
    """Timeout of one call in seconds, including all its attempts. Null: the run's
    `limits.tool_timeout_seconds` or, if that is null, the default of the deployment. For
    tools of type `client`, null means no timeout."""
    on_timeout: NotRequired[FailureMode | FailureMessageInput]
    """What happens after a timeout. `return_error`: the model reads an error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. Default:
    `return_error`."""
    on_error: NotRequired[FailureMode | FailureMessageInput]
    """What happens after an error. `return_error`: the model reads the error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. A plugin's tool can
    also use a function of the plugin. Default: `return_error`."""
    idempotent: NotRequired[bool]
    """Whether the tool may safely receive the same call more than once. If true, Runward can
    send a call again when its outcome is unknown. Default: false."""
    on_unknown: NotRequired[UnknownOutcomeMode]
    """What happens if Runward does not know whether a call took effect. `return_error`: the
    model reads an error. `ask`: a person must record the outcome. `fail_run`: the run fails.
    Default: `return_error`."""
    retry: NotRequired[RetryInput]
    """How many times Runward retries a call and how long it waits between attempts."""
    approval: NotRequired[ApprovalMode | CelRuleInput]
    """Whether a person must approve each call of the tool: `never`, `always`, or a CEL rule that
    uses `args`, `context`, `run`, and `tool`. A plugin's tool can also use a function of the
    plugin. Default: `never`."""
    approval_expires_seconds: NotRequired[float]
    """Number of seconds until an approval expires. When it expires, the model reads that nobody
    decided. Default: 7 days. Maximum: 365 days."""
    reject_message: NotRequired[str | None]
    """Message that the model reads if an approver rejects a call without a message. Null:
    Runward uses a built-in message."""
    enabled: NotRequired[bool | CelRuleInput]
    """Whether models see the tool: true, false, or a CEL rule that Runward evaluates in every
    turn. A plugin's tool can also use a function of the plugin. Default: true."""
    defer: NotRequired[bool]
    """Whether models see the tool only after they have found it with `search_tools`. If an agent
    has such a tool, Runward gives the model `search_tools`. Default: false."""
    guardrails: NotRequired[list[GuardrailInput]]
    """Guardrails that check the calls and results of this tool. Runward signs their webhook
    requests with the tool's secret. Default: an empty list."""
    concurrency: NotRequired[ConcurrencyInput]
    """How many calls of the tool may run at the same time within one run."""
    max_output_bytes: NotRequired[int]
    """Maximum size in bytes of a result that the model reads. If a result is longer, Runward
    stores it in full, and the model reads a truncated version. Default: 65536."""
    metadata: NotRequired[dict[str, JsonValue]]
    """Custom metadata of the tool. CEL rules can read it as `tool.metadata`."""
    name: str
    """Name of the tool that models use to call it. Unique in the project."""
    description: NotRequired[str | None]
    """Description of the tool for the model: what the tool does and when to use it. Null: no
    description."""
    parameters: NotRequired[JsonObject | None]
    """JSON Schema of the arguments. Its type must be `object`. Null or an empty object: the tool
    has no arguments."""
    strict: NotRequired[bool | None]
    """Whether the model must follow the schema exactly: all properties are required, and no
    others are allowed. Null: false, as in OpenAI's Chat Completions API."""
    type: Literal['function']
    """Always `function`."""
    defer_loading: NotRequired[bool | None]
    """OpenAI's name of `defer`. Null: `defer` applies."""


class FunctionToolChoice(TypedDict):
    """The tool that the model must call, as in OpenAI's Responses API."""
    type: Literal['function']
    """Always `function`."""
    name: str
    """Name of the tool that the model must call."""


class GuardrailAllow(TypedDict):
    """The guardrail allows the call, input, or output."""
    action: Literal['allow']
    """Always `allow`."""


class GuardrailFail(TypedDict):
    """The guardrail fails the run."""
    action: Literal['fail']
    """Always `fail`."""
    message: NotRequired[str]
    """Error message of the failed run. If it is missing, Runward uses a built-in message."""


class GuardrailReject(TypedDict):
    """The guardrail rejects the call, input, or output."""
    action: Literal['reject']
    """Always `reject`."""
    message: NotRequired[str]
    """Message that replaces the rejected content. If it is missing, Runward uses a built-in
    message."""


class GuardrailRequest(TypedDict):
    """The request to a guardrail. Its fields depend on `stage`."""
    type: Literal['guardrail']
    """Always `guardrail`."""
    stage: GuardrailStage
    """Stage at which Runward calls the guardrail."""
    run_id: str
    """ID of the run."""
    agent: str | None
    """Name of the agent that currently executes the run. Null if the run uses no registered
    agent."""
    context: JsonObject | None
    """Context that the client set when it started the run. Null if the client set no context."""
    call_id: NotRequired[str]
    """ID of the tool call. Unique within its run. Set only for the stages `input` and `output`."""
    tool: NotRequired[str]
    """Name of the tool. Set only for the stages `pre_approval`, `input`, and `output`."""
    tool_version: NotRequired[int | None]
    """Version of the tool. Set only for the stages `pre_approval`, `input`, and `output`."""
    arguments: NotRequired[JsonObject]
    """Arguments of the call. Set only for the stages `pre_approval`, `input`, and `output`."""
    input: NotRequired[list[Item]]
    """Items of the run's input. Set only for the stage `run_input`."""
    output: NotRequired[JsonValue]
    """Output of the call or the run. Set only for the stages `output` and `run_output`."""
    is_error: NotRequired[bool]
    """Whether the model reads the output as an error. Set only for the stage `output`."""
    content: NotRequired[list[ItemPart]]
    """Parts of the result: text, images, and files. Set only for the stage `output` if the tool
    returned parts."""
    detail: NotRequired[str]
    """Technical details of the error, for operators. The model does not see them. Set only for
    the stage `output` if the call failed."""
    child_run_id: NotRequired[str]
    """ID of the call's last child run. Set only for the stage `output` if the call has child
    runs."""


HandoffCompletedData = TypedDict(
    'HandoffCompletedData',
    {'from': 'str | None', 'to': 'str', 'turn': 'int'},
)


class HandoffCompletedEvent(TypedDict):
    """An agent handed the run over to another agent. The data contains the names of both agents."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['handoff.completed']
    """Always `handoff.completed`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: HandoffCompletedData
    """Data of the event. Its fields depend on the event's type."""


class HistoryLimits(TypedDict):
    """How much of a session's earlier runs the model sees. By default, the model sees everything
    that the session stores."""
    max_exchanges: NotRequired[int | None]
    """Maximum number of exchanges to show, counted from the newest. An exchange is one user
    message and everything that follows it. Null: no limit."""
    max_tokens: NotRequired[int | None]
    """Maximum number of tokens of the earlier conversation. Runward shows the newest exchanges
    that fit, and estimates one token for every four bytes. Null: no limit."""
    trim_tool_outputs: NotRequired[int | None]
    """Maximum size in bytes of each tool output from earlier runs. Runward truncates longer
    outputs. Null: Runward does not truncate outputs."""


class HistoryLimitsInput(TypedDict):
    """How much of a session's earlier runs the model sees. By default, the model sees everything
    that the session stores."""
    max_exchanges: NotRequired[int | None]
    """Maximum number of exchanges to show, counted from the newest. An exchange is one user
    message and everything that follows it. Null: no limit."""
    max_tokens: NotRequired[int | None]
    """Maximum number of tokens of the earlier conversation. Runward shows the newest exchanges
    that fit, and estimates one token for every four bytes. Null: no limit."""
    trim_tool_outputs: NotRequired[int | None]
    """Maximum size in bytes of each tool output from earlier runs. Runward truncates longer
    outputs. Null: Runward does not truncate outputs."""


class HookCall(TypedDict):
    """A tool call in the response of an `after_model` hook. If the model requested a call with
    the same `call_id`, this object changes it. Otherwise, it adds a call."""
    call_id: NotRequired[str | None]
    """ID of the call. Null for an added call: Runward generates the ID."""
    name: NotRequired[str | None]
    """Name of the tool. Null: the name that the model requested."""
    arguments: NotRequired[JsonObject | None]
    """Arguments of the call. Null: the arguments that the model requested."""
    arguments_text: NotRequired[str | None]
    """Arguments as a text that is not a JSON object. If it is set, Runward ignores `arguments`."""


class HookRequest(TypedDict):
    """The request to a hook. Its fields depend on `on`."""
    type: Literal['hook']
    """Always `hook`."""
    on: HookPoint
    """Point at which Runward calls the hook."""
    run_id: str
    """ID of the run."""
    agent: str | None
    """Name of the agent that currently executes the run. Null if the run uses no registered
    agent."""
    context: JsonObject | None
    """Context that the client set when it started the run. Null if the client set no context."""
    turn: int
    """Number of the current turn, counted from 1 in each run."""
    items: NotRequired[list[Item]]
    """Items of the conversation that the model is about to read. Set only for `before_model`."""
    message: NotRequired[str]
    """Text of the model's response. Set only for `after_model`."""
    calls: NotRequired[list[RequestedCallData]]
    """Tool calls that the model requests. Set only for `after_model`."""
    refusal: NotRequired[str | None]
    """The model's refusal. Null if the model did not refuse. Set only for `after_model`."""
    call_id: NotRequired[str]
    """ID of the tool call. Unique within its run. Set only for `before_tool` and `after_tool`."""
    tool: NotRequired[str]
    """Name of the tool. Set only for `before_tool` and `after_tool`."""
    tool_version: NotRequired[int | None]
    """Version of the tool. Set only for `before_tool` and `after_tool`."""
    arguments: NotRequired[JsonObject]
    """Arguments of the call. Set only for `before_tool` and `after_tool`."""
    output: NotRequired[JsonValue]
    """Output of the call. Set only for `after_tool`."""
    is_error: NotRequired[bool]
    """Whether the model reads the output as an error. Set only for `after_tool`."""
    content: NotRequired[list[ItemPart]]
    """Parts of the result: text, images, and files. Set only for `after_tool` if the tool
    returned parts."""
    detail: NotRequired[str]
    """Technical details of the error, for operators. The model does not see them. Set only for
    `after_tool` if the call failed."""
    child_run_id: NotRequired[str]
    """ID of the call's last child run. Set only for `after_tool` if the call has child runs."""


class HookResponse(TypedDict):
    """The response of a hook. An empty object changes nothing."""
    output: NotRequired[JsonValue]
    """Output that replaces the call's output: any JSON value. Only for `before_tool` and
    `after_tool`."""
    message: NotRequired[str]
    """Message that replaces the model's message. If the response has no `calls`, the message
    also replaces the tool calls. Only for `before_model` and `after_model`."""
    calls: NotRequired[list[HookCall]]
    """Tool calls that replace the calls of the model. Runward drops the calls that are not in
    this list. Only for `after_model`."""
    metadata: NotRequired[JsonObject]
    """Metadata of the call. Runward stores it and never shows it to the model. Only for
    `before_tool` and `after_tool`."""


class HostedCallItem(TypedDict):
    """A hosted tool call, which the model's provider ran, together with its result."""
    type: Literal['hosted_call']
    """Always `hosted_call`."""
    call_id: str
    """ID of the hosted tool call, as the provider generated it."""
    name: str
    """Name of the hosted tool."""
    kind: str
    """Kind of the hosted tool. If Runward does not know the kind, this is the provider's name
    for it."""
    provider: str
    """Name of the provider that ran the tool."""
    arguments: JsonObject
    """Arguments of the call."""
    output: JsonValue
    """Output of the call: any JSON value."""
    is_error: bool
    """Whether the call failed."""
    data: JsonObject
    """The call in the provider's format, unchanged."""


class HostedTool(TypedDict):
    """A tool that the model's provider runs."""
    kind: HostedToolKind
    """Kind of the hosted tool."""
    settings: NotRequired[dict[str, JsonValue]]
    """Options of the hosted tool in the provider's format. Runward sends them to the provider
    unchanged."""
    secrets: NotRequired[dict[str, str]]
    """Options of the hosted tool whose values are secrets. Each key is the name of an option,
    and each value is the name of a secret of the project. A dot in a key selects a field of
    an object, or an entry of an array by its index."""


class HostedToolInput(TypedDict):
    """A tool that the model's provider runs."""
    kind: HostedToolKind
    """Kind of the hosted tool."""
    settings: NotRequired[dict[str, JsonValue]]
    """Options of the hosted tool in the provider's format. Runward sends them to the provider
    unchanged."""
    secrets: NotRequired[dict[str, str]]
    """Options of the hosted tool whose values are secrets. Each key is the name of an option,
    and each value is the name of a secret of the project. A dot in a key selects a field of
    an object, or an entry of an array by its index."""


class IncompleteDetails(TypedDict):
    """The limit that ended a run."""
    reason: str
    """Code of the limit, such as `max_turns`, `max_tool_calls`, `max_tokens`, `max_cost_usd`,
    `budget`, `deadline`, `output_schema`, or `guardrail`."""
    message: str | None
    """Description of the limit, for people."""


class InlineFunctionTool(TypedDict):
    """A tool that only this run or agent has, in the format of OpenAI's Responses API."""
    signing_secret: NotRequired[SecretReferenceInput | None]
    """Secret of the project that signs the requests of the tool and of its guardrails. Its value
    must be a secret in the format of Standard Webhooks (`whsec_…`). Null: the project's
    signing secret signs them."""
    output_schema: NotRequired[JsonObject | None]
    """JSON Schema of the result. If a result does not match, the model reads an error. Null:
    results are not validated."""
    url: NotRequired[str | None]
    """URL of a webhook tool, or of the MCP server of a tool of type `mcp`. Null for all other
    types."""
    response: NotRequired[ToolResponseMode]
    """How Runward reads the response of a webhook tool. `output`: the response is the output of
    the call. `envelope`: requests contain the shared `state`, and the response is an object
    with `output`, `state`, `transfer_to`, `escalate`, and `metadata`, which are all optional.
    Default: `output`."""
    headers: NotRequired[dict[str, str | SecretReferenceInput]]
    """HTTP headers that Runward sends with every call. A string is stored encrypted and never
    shown again. An object refers to a secret of the project."""
    timeout_seconds: NotRequired[float | None]
    """Timeout of one call in seconds, including all its attempts. Null: the run's
    `limits.tool_timeout_seconds` or, if that is null, the default of the deployment. For
    tools of type `client`, null means no timeout."""
    on_timeout: NotRequired[FailureMode | FailureMessageInput]
    """What happens after a timeout. `return_error`: the model reads an error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. Default:
    `return_error`."""
    on_error: NotRequired[FailureMode | FailureMessageInput]
    """What happens after an error. `return_error`: the model reads the error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. A plugin's tool can
    also use a function of the plugin. Default: `return_error`."""
    idempotent: NotRequired[bool]
    """Whether the tool may safely receive the same call more than once. If true, Runward can
    send a call again when its outcome is unknown. Default: false."""
    on_unknown: NotRequired[UnknownOutcomeMode]
    """What happens if Runward does not know whether a call took effect. `return_error`: the
    model reads an error. `ask`: a person must record the outcome. `fail_run`: the run fails.
    Default: `return_error`."""
    retry: NotRequired[RetryInput]
    """How many times Runward retries a call and how long it waits between attempts."""
    approval: NotRequired[ApprovalMode | CelRuleInput]
    """Whether a person must approve each call of the tool: `never`, `always`, or a CEL rule that
    uses `args`, `context`, `run`, and `tool`. A plugin's tool can also use a function of the
    plugin. Default: `never`."""
    approval_expires_seconds: NotRequired[float]
    """Number of seconds until an approval expires. When it expires, the model reads that nobody
    decided. Default: 7 days. Maximum: 365 days."""
    reject_message: NotRequired[str | None]
    """Message that the model reads if an approver rejects a call without a message. Null:
    Runward uses a built-in message."""
    enabled: NotRequired[bool | CelRuleInput]
    """Whether models see the tool: true, false, or a CEL rule that Runward evaluates in every
    turn. A plugin's tool can also use a function of the plugin. Default: true."""
    defer: NotRequired[bool]
    """Whether models see the tool only after they have found it with `search_tools`. If an agent
    has such a tool, Runward gives the model `search_tools`. Default: false."""
    guardrails: NotRequired[list[GuardrailInput]]
    """Guardrails that check the calls and results of this tool. Runward signs their webhook
    requests with the tool's secret. Default: an empty list."""
    concurrency: NotRequired[ConcurrencyInput]
    """How many calls of the tool may run at the same time within one run."""
    max_output_bytes: NotRequired[int]
    """Maximum size in bytes of a result that the model reads. If a result is longer, Runward
    stores it in full, and the model reads a truncated version. Default: 65536."""
    metadata: NotRequired[dict[str, JsonValue]]
    """Custom metadata of the tool. CEL rules can read it as `tool.metadata`."""
    name: str
    """Name of the tool that models use to call it. Unique in the project."""
    description: NotRequired[str | None]
    """Description of the tool for the model: what the tool does and when to use it. Null: no
    description."""
    parameters: NotRequired[JsonObject | None]
    """JSON Schema of the arguments. Its type must be `object`. Null or an empty object: the tool
    has no arguments."""
    strict: NotRequired[bool | None]
    """Whether the model must follow the schema exactly: all properties are required, and no
    others are allowed. Null: false, as in OpenAI's Chat Completions API."""
    type: Literal['function']
    """Always `function`."""
    defer_loading: NotRequired[bool | None]
    """OpenAI's name of `defer`. Null: `defer` applies."""


class InlineNamespace(TypedDict):
    """A group of tools that only this run or agent has, in the format of OpenAI's Responses API.
    The function `find` of the namespace `crm` becomes the tool `crm_find`. Its description is
    the description of the namespace followed by its own."""
    type: Literal['namespace']
    """Always `namespace`."""
    name: str
    """Name of the namespace. The names of the tools begin with it."""
    description: NotRequired[str]
    """Description of the namespace. The descriptions of the tools begin with it. Default: an
    empty string."""
    tools: list[InlineFunctionTool]
    """Functions of the namespace."""


class InlineNestedFunctionTool(TypedDict):
    """A tool that only this run or agent has, in the format of OpenAI's Chat Completions API."""
    signing_secret: NotRequired[SecretReferenceInput | None]
    """Secret of the project that signs the requests of the tool and of its guardrails. Its value
    must be a secret in the format of Standard Webhooks (`whsec_…`). Null: the project's
    signing secret signs them."""
    output_schema: NotRequired[JsonObject | None]
    """JSON Schema of the result. If a result does not match, the model reads an error. Null:
    results are not validated."""
    url: NotRequired[str | None]
    """URL of a webhook tool, or of the MCP server of a tool of type `mcp`. Null for all other
    types."""
    response: NotRequired[ToolResponseMode]
    """How Runward reads the response of a webhook tool. `output`: the response is the output of
    the call. `envelope`: requests contain the shared `state`, and the response is an object
    with `output`, `state`, `transfer_to`, `escalate`, and `metadata`, which are all optional.
    Default: `output`."""
    headers: NotRequired[dict[str, str | SecretReferenceInput]]
    """HTTP headers that Runward sends with every call. A string is stored encrypted and never
    shown again. An object refers to a secret of the project."""
    timeout_seconds: NotRequired[float | None]
    """Timeout of one call in seconds, including all its attempts. Null: the run's
    `limits.tool_timeout_seconds` or, if that is null, the default of the deployment. For
    tools of type `client`, null means no timeout."""
    on_timeout: NotRequired[FailureMode | FailureMessageInput]
    """What happens after a timeout. `return_error`: the model reads an error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. Default:
    `return_error`."""
    on_error: NotRequired[FailureMode | FailureMessageInput]
    """What happens after an error. `return_error`: the model reads the error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. A plugin's tool can
    also use a function of the plugin. Default: `return_error`."""
    idempotent: NotRequired[bool]
    """Whether the tool may safely receive the same call more than once. If true, Runward can
    send a call again when its outcome is unknown. Default: false."""
    on_unknown: NotRequired[UnknownOutcomeMode]
    """What happens if Runward does not know whether a call took effect. `return_error`: the
    model reads an error. `ask`: a person must record the outcome. `fail_run`: the run fails.
    Default: `return_error`."""
    retry: NotRequired[RetryInput]
    """How many times Runward retries a call and how long it waits between attempts."""
    approval: NotRequired[ApprovalMode | CelRuleInput]
    """Whether a person must approve each call of the tool: `never`, `always`, or a CEL rule that
    uses `args`, `context`, `run`, and `tool`. A plugin's tool can also use a function of the
    plugin. Default: `never`."""
    approval_expires_seconds: NotRequired[float]
    """Number of seconds until an approval expires. When it expires, the model reads that nobody
    decided. Default: 7 days. Maximum: 365 days."""
    reject_message: NotRequired[str | None]
    """Message that the model reads if an approver rejects a call without a message. Null:
    Runward uses a built-in message."""
    enabled: NotRequired[bool | CelRuleInput]
    """Whether models see the tool: true, false, or a CEL rule that Runward evaluates in every
    turn. A plugin's tool can also use a function of the plugin. Default: true."""
    defer: NotRequired[bool]
    """Whether models see the tool only after they have found it with `search_tools`. If an agent
    has such a tool, Runward gives the model `search_tools`. Default: false."""
    guardrails: NotRequired[list[GuardrailInput]]
    """Guardrails that check the calls and results of this tool. Runward signs their webhook
    requests with the tool's secret. Default: an empty list."""
    concurrency: NotRequired[ConcurrencyInput]
    """How many calls of the tool may run at the same time within one run."""
    max_output_bytes: NotRequired[int]
    """Maximum size in bytes of a result that the model reads. If a result is longer, Runward
    stores it in full, and the model reads a truncated version. Default: 65536."""
    metadata: NotRequired[dict[str, JsonValue]]
    """Custom metadata of the tool. CEL rules can read it as `tool.metadata`."""
    type: Literal['function']
    """Always `function`."""
    function: FunctionDefinition
    """The function: its name, its description, and its parameters."""


class InlineTool(TypedDict):
    """A tool that only this run or agent has. It has the same fields as a tool to register."""
    signing_secret: NotRequired[SecretReferenceInput | None]
    """Secret of the project that signs the requests of the tool and of its guardrails. Its value
    must be a secret in the format of Standard Webhooks (`whsec_…`). Null: the project's
    signing secret signs them."""
    name: str
    """Name of the tool that models use to call it. Unique in the project."""
    description: NotRequired[str]
    """Description of the tool for the model: what the tool does and when to use it. Default: an
    empty string."""
    parameters: NotRequired[JsonObject]
    """JSON Schema of the arguments. Its type must be `object`. If the arguments of a call do not
    match the schema, Runward does not send the call."""
    output_schema: NotRequired[JsonObject | None]
    """JSON Schema of the result. If a result does not match, the model reads an error. Null:
    results are not validated."""
    type: NotRequired[RegisteredToolType]
    """How Runward executes the tool. `webhook`: a signed POST request to `url`. `agent`: a child
    run. `client`: the client runs the tool and submits the result. `hosted`: the model's
    provider runs the tool. `plugin`: a function that is installed with the service. `mcp`: a
    tool of a registered MCP server. Default: `webhook`."""
    url: NotRequired[str | None]
    """URL of a webhook tool, or of the MCP server of a tool of type `mcp`. Null for all other
    types."""
    agent: NotRequired[str | None]
    """Name of the agent that executes the child run. Set only for tools of type `agent`."""
    output: NotRequired[ChildOutput | ChildToolOutputInput]
    """Which part of the child run becomes the result of a tool of type `agent`. `final`: the
    final output. `json`: the final output parsed as JSON. An object: the last successful
    output of the named tool. Default: `final`."""
    response: NotRequired[ToolResponseMode]
    """How Runward reads the response of a webhook tool. `output`: the response is the output of
    the call. `envelope`: requests contain the shared `state`, and the response is an object
    with `output`, `state`, `transfer_to`, `escalate`, and `metadata`, which are all optional.
    Default: `output`."""
    headers: NotRequired[dict[str, str | SecretReferenceInput]]
    """HTTP headers that Runward sends with every call. A string is stored encrypted and never
    shown again. An object refers to a secret of the project."""
    strict: NotRequired[bool]
    """Whether the model must follow the schema exactly. If true, all properties are required,
    and additional properties are not allowed. Optional properties become nullable. Default:
    true."""
    timeout_seconds: NotRequired[float | None]
    """Timeout of one call in seconds, including all its attempts. Null: the run's
    `limits.tool_timeout_seconds` or, if that is null, the default of the deployment. For
    tools of type `client`, null means no timeout."""
    on_timeout: NotRequired[FailureMode | FailureMessageInput]
    """What happens after a timeout. `return_error`: the model reads an error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. Default:
    `return_error`."""
    on_error: NotRequired[FailureMode | FailureMessageInput]
    """What happens after an error. `return_error`: the model reads the error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. A plugin's tool can
    also use a function of the plugin. Default: `return_error`."""
    idempotent: NotRequired[bool]
    """Whether the tool may safely receive the same call more than once. If true, Runward can
    send a call again when its outcome is unknown. Default: false."""
    on_unknown: NotRequired[UnknownOutcomeMode]
    """What happens if Runward does not know whether a call took effect. `return_error`: the
    model reads an error. `ask`: a person must record the outcome. `fail_run`: the run fails.
    Default: `return_error`."""
    retry: NotRequired[RetryInput]
    """How many times Runward retries a call and how long it waits between attempts."""
    approval: NotRequired[ApprovalMode | CelRuleInput]
    """Whether a person must approve each call of the tool: `never`, `always`, or a CEL rule that
    uses `args`, `context`, `run`, and `tool`. A plugin's tool can also use a function of the
    plugin. Default: `never`."""
    approval_expires_seconds: NotRequired[float]
    """Number of seconds until an approval expires. When it expires, the model reads that nobody
    decided. Default: 7 days. Maximum: 365 days."""
    reject_message: NotRequired[str | None]
    """Message that the model reads if an approver rejects a call without a message. Null:
    Runward uses a built-in message."""
    enabled: NotRequired[bool | CelRuleInput]
    """Whether models see the tool: true, false, or a CEL rule that Runward evaluates in every
    turn. A plugin's tool can also use a function of the plugin. Default: true."""
    defer: NotRequired[bool]
    """Whether models see the tool only after they have found it with `search_tools`. If an agent
    has such a tool, Runward gives the model `search_tools`. Default: false."""
    guardrails: NotRequired[list[GuardrailInput]]
    """Guardrails that check the calls and results of this tool. Runward signs their webhook
    requests with the tool's secret. Default: an empty list."""
    concurrency: NotRequired[ConcurrencyInput]
    """How many calls of the tool may run at the same time within one run."""
    max_output_bytes: NotRequired[int]
    """Maximum size in bytes of a result that the model reads. If a result is longer, Runward
    stores it in full, and the model reads a truncated version. Default: 65536."""
    metadata: NotRequired[dict[str, JsonValue]]
    """Custom metadata of the tool. CEL rules can read it as `tool.metadata`."""
    hosted: NotRequired[HostedToolInput | None]
    """The tool that the model's provider runs. Set only for tools of type `hosted`."""
    implements: NotRequired[ExecutorKind | None]
    """Kind of tool that providers define and that this webhook or plugin tool runs instead. The
    kind sets the tool's parameters. Calls need approval unless `approval` is set."""
    settings: NotRequired[ComputerSettingsInput | None]
    """Screen of a tool that implements `computer`. Models read the size of the screen. Null:
    models learn the size only from the images."""


class InputAssistantMessage(TypedDict):
    """A message of the assistant: the response of a model, with its tool calls. It must have
    `content`, `refusal` or `tool_calls`."""
    role: Literal['assistant']
    """Always `assistant`."""
    content: NotRequired[str | list[InputAssistantPart] | None]
    """Content of the message: a string, or a list of parts. Null: the message has no content."""
    refusal: NotRequired[str | None]
    """Refusal of the model. Null: the model did not refuse."""
    tool_calls: NotRequired[list[InputToolCall] | None]
    """Tool calls of the response. Each call needs a result, which is a later message of the role
    `tool`. Null: no tool calls."""
    name: NotRequired[str | None]
    """Name of the author. Accepted but ignored."""
    annotations: NotRequired[list[JsonValue] | None]
    """Annotations of the text. Accepted but ignored."""
    parsed: NotRequired[JsonValue]
    """Content that OpenAI's SDKs have parsed. Accepted but ignored."""
    provider_specific_fields: NotRequired[JsonValue]
    """Additional fields that LiteLLM adds to its messages. Accepted but ignored."""
    audio: NotRequired[None]
    """Always null. Accepted because OpenAI's SDKs send it."""
    function_call: NotRequired[None]
    """Always null. Accepted because OpenAI's SDKs send it."""


class InputFile(TypedDict):
    """A file, as a URL or as base64 data, or in the format of OpenAI's Chat Completions API."""
    url: NotRequired[str | None]
    """URL of the content. The model's provider loads the content from this URL. Set either `url`
    or `data`."""
    data: NotRequired[str | None]
    """Content in base64. It needs a `media_type`. Set either `url` or `data`."""
    media_type: NotRequired[str | None]
    """Media type of the content, such as `image/png`."""
    type: Literal['file']
    """Always `file`."""
    file: NotRequired[InputFileContent | None]
    """Content and name in OpenAI's format. If it is set, the other fields must not be set."""
    filename: NotRequired[str | None]
    """File name that the model sees."""


class InputFileContent(TypedDict):
    """The content of a file, in the format of OpenAI's Chat Completions API."""
    file_data: str
    """Content of the file: a data URL such as `data:application/pdf;base64,…`."""
    filename: NotRequired[str | None]
    """File name that the model sees."""
    file_id: NotRequired[None]
    """Always null. Runward does not support file IDs. Send the content in `file_data`."""


class InputFilePart(TypedDict):
    """A file, in the format of OpenAI's Responses API."""
    type: Literal['input_file']
    """Always `input_file`."""
    file_url: NotRequired[str | None]
    """URL of the file. The model's provider loads the file from this URL. Set either `file_url`
    or `file_data`."""
    file_data: NotRequired[str | None]
    """Content of the file: a data URL such as `data:application/pdf;base64,…`."""
    filename: NotRequired[str | None]
    """File name that the model sees."""
    file_id: NotRequired[None]
    """Always null. Runward does not support file IDs. Send the content in `file_data`."""
    detail: NotRequired[ImageDetail | None]
    """Level of detail of the file. Accepted but ignored."""


class InputFunction(TypedDict):
    """The function of an earlier tool call, in OpenAI's format."""
    name: str
    """Name of the function. It does not need to be the name of a tool of the run."""
    arguments: str
    """Arguments of the call: a JSON object as text. An empty text means no arguments."""
    parsed_arguments: NotRequired[JsonValue]
    """Arguments that OpenAI's SDKs have parsed. Accepted but ignored."""


class InputImage(TypedDict):
    """An image, as a URL or as base64 data."""
    url: NotRequired[str | None]
    """URL of the content. The model's provider loads the content from this URL. Set either `url`
    or `data`."""
    data: NotRequired[str | None]
    """Content in base64. It needs a `media_type`. Set either `url` or `data`."""
    media_type: NotRequired[str | None]
    """Media type of the content, such as `image/png`."""
    type: Literal['image']
    """Always `image`."""


class InputImagePart(TypedDict):
    """An image, in the format of OpenAI's Responses API."""
    type: Literal['input_image']
    """Always `input_image`."""
    image_url: str
    """URL of the image: an HTTPS URL, or a data URL such as `data:image/png;base64,…`."""
    detail: NotRequired[ImageDetail | None]
    """Level of detail of the image. Accepted but ignored."""


class InputImageUrl(TypedDict):
    """The address of an image, in OpenAI's format."""
    url: str
    """URL of the image: an HTTPS URL, or a data URL such as `data:image/png;base64,…`."""
    detail: NotRequired[ImageDetail | None]
    """Level of detail of the image. Accepted but ignored."""


class InputImageUrlPart(TypedDict):
    """An image, in the format of OpenAI's Chat Completions API."""
    type: Literal['image_url']
    """Always `image_url`."""
    image_url: InputImageUrl
    """Address of the image."""


class InputReceivedData(TypedDict):
    """Data of an `input.received` event."""
    turn: int
    """Number of turns that the run has had so far."""
    messages: int
    """Number of messages that were received."""


class InputReceivedEvent(TypedDict):
    """A client sent another message while the run was open."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['input.received']
    """Always `input.received`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: InputReceivedData
    """Data of the event. Its fields depend on the event's type."""


class InputRefusal(TypedDict):
    """A refusal of the model, in OpenAI's format."""
    type: Literal['refusal']
    """Always `refusal`."""
    refusal: str
    """Text of the refusal."""


class InputText(TypedDict):
    """A text part of a message."""
    type: InputTextType
    """Kind of the part. `input_text` has the same meaning as `text`."""
    text: str
    """Text of the part."""


class InputTokens(TypedDict):
    """The estimated number of input tokens."""
    object: Literal['response.input_tokens']
    """Always `response.input_tokens`."""
    input_tokens: int
    """Estimated number of input tokens: one for every four bytes of the instructions, the tools
    and the conversation. An image or a file counts as 1,000 tokens."""


class InputToolCall(TypedDict):
    """An earlier tool call, in the format of OpenAI's Chat Completions API. Runward does not run
    it."""
    id: str
    """ID of the tool call. A later message of the role `tool` contains its result."""
    type: NotRequired[Literal['function']]
    """Always `function`."""
    function: InputFunction
    """Function that the model called."""
    index: NotRequired[int | None]
    """Position of the call in a stream. Accepted but ignored."""


class InputToolMessage(TypedDict):
    """The result of an earlier tool call, in the format of OpenAI's Chat Completions API."""
    role: Literal['tool']
    """Always `tool`."""
    tool_call_id: str
    """ID of the tool call that the result belongs to."""
    content: str | list[InputPart]
    """Result of the tool call: a string, or a list of text, image, and file parts."""
    name: NotRequired[str | None]
    """Name of the function. Accepted but ignored."""


class InputUserMessage(TypedDict):
    """A message of a user or of the system."""
    role: InputUserRole
    """Role of the author of the message. `developer` has the same meaning as `system`."""
    content: str | list[InputPart]
    """Content of the message: a string, or a list of text, image, and file parts."""
    name: NotRequired[str | None]
    """Name of the author. Accepted but ignored."""


class ItemFile(TypedDict):
    """A file, as a URL or as base64 data."""
    type: Literal['file']
    """Always `file`."""
    url: NotRequired[str]
    """URL of the file. Missing if the file is in `data`."""
    data: NotRequired[str]
    """The file in base64. Missing if the file has a `url`."""
    media_type: NotRequired[str]
    """Media type of the file, such as `application/pdf`."""
    filename: NotRequired[str]
    """Name of the file."""


class ItemImage(TypedDict):
    """An image, as a URL or as base64 data."""
    type: Literal['image']
    """Always `image`."""
    url: NotRequired[str]
    """URL of the image. Missing if the image is in `data`."""
    data: NotRequired[str]
    """The image in base64. Missing if the image has a `url`."""
    media_type: NotRequired[str]
    """Media type of the image, such as `image/png`."""
    filename: NotRequired[str]
    """Name of the image file."""


class ItemText(TypedDict):
    """A text part of a message or a result."""
    type: Literal['text']
    """Always `text`."""
    text: str
    """Text of the part."""


class Key(TypedDict):
    """An API key, without its secret."""
    id: str
    """ID of the API key. `created_by` of runs and `decided_by` of approvals refer to it."""
    object: Literal['key']
    """Always `key`."""
    name: str
    """Name of the API key."""
    scopes: list[Scope]
    """Scopes of the API key."""
    created_at: str
    """When the API key was created."""
    expires_at: str | None
    """When the API key expires. Null if it does not expire."""
    revoked_at: str | None
    """When the API key was revoked. Null if it is not revoked."""
    last_used_at: str | None
    """When the API key was last used, accurate to a minute. Null if it was never used."""


class KeyLimits(TypedDict):
    """The limits of one API key. They apply together with the limits of the project."""
    key_id: str
    """ID of an API key of the project."""
    running_runs: NotRequired[int | None]
    """Maximum number of runs of this key that run at the same time, including child runs.
    Further runs wait in the queue. Null: no limit."""
    queued_runs: NotRequired[int | None]
    """Maximum number of runs of this key with the status `queued`, without child runs. Null: no
    limit."""
    requests_per_minute: NotRequired[int | None]
    """Maximum number of requests with this key in a minute. Null: no limit."""
    event_streams: NotRequired[int | None]
    """Maximum number of event streams of this key in one process. Null: the deployment's
    maximum."""


class KeyLimitsInput(TypedDict):
    """The limits of one API key. They apply together with the limits of the project."""
    key_id: str
    """ID of an API key of the project."""
    running_runs: NotRequired[int | None]
    """Maximum number of runs of this key that run at the same time, including child runs.
    Further runs wait in the queue. Null: no limit."""
    queued_runs: NotRequired[int | None]
    """Maximum number of runs of this key with the status `queued`, without child runs. Null: no
    limit."""
    requests_per_minute: NotRequired[int | None]
    """Maximum number of requests with this key in a minute. Null: no limit."""
    event_streams: NotRequired[int | None]
    """Maximum number of event streams of this key in one process. Null: the deployment's
    maximum."""


class KeyList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[Key]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class LegalHold(TypedDict):
    """A legal hold. While it exists, Runward does not erase the data of its run, session or
    project."""
    id: str
    """ID of the run, the session or the project under the hold."""
    object: Literal['legal_hold']
    """Always `legal_hold`."""
    kind: HoldKind
    """Kind of the resource."""
    reason: str
    """Reason for the hold, for people. Empty if none was given."""
    created_by: Actor | None
    """API key that created the hold."""
    created_at: str
    """When the hold was created."""


class LegalHoldList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[LegalHold]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class Limits(TypedDict):
    """Limits of one run. They apply from the creation to the end of the run, including the time
    after it resumes."""
    max_turns: NotRequired[int]
    """Maximum number of turns."""
    max_tool_calls: NotRequired[int]
    """Maximum number of tool calls."""
    max_tokens: NotRequired[int | None]
    """Maximum number of input and output tokens together. Null: no limit."""
    max_cost_usd: NotRequired[float | None]
    """Maximum cost of the run in US dollars, including its child runs. All models need a known
    price. Null: no limit."""
    deadline_seconds: NotRequired[float | None]
    """Maximum duration of the run in seconds, from its creation or its `start_at` to its end,
    including waiting times. Null: no deadline."""
    tool_timeout_seconds: NotRequired[float | None]
    """Timeout in seconds for calls of tools that have no `timeout_seconds`. It does not apply to
    tools of type `client`. Null: the default of the deployment."""
    max_parallel_tool_calls: NotRequired[int]
    """Maximum number of tool calls that run at the same time."""


class LimitsInput(TypedDict):
    """Limits of one run. They apply from the creation to the end of the run, including the time
    after it resumes."""
    max_turns: NotRequired[int]
    """Maximum number of turns. Default: 10."""
    max_tool_calls: NotRequired[int]
    """Maximum number of tool calls. Default: 200."""
    max_tokens: NotRequired[int | None]
    """Maximum number of input and output tokens together. Null: no limit."""
    max_cost_usd: NotRequired[float | None]
    """Maximum cost of the run in US dollars, including its child runs. All models need a known
    price. Null: no limit."""
    deadline_seconds: NotRequired[float | None]
    """Maximum duration of the run in seconds, from its creation or its `start_at` to its end,
    including waiting times. Null: no deadline."""
    tool_timeout_seconds: NotRequired[float | None]
    """Timeout in seconds for calls of tools that have no `timeout_seconds`. It does not apply to
    tools of type `client`. Null: the default of the deployment."""
    max_parallel_tool_calls: NotRequired[int]
    """Maximum number of tool calls that run at the same time. Default: 8."""


class Liveness(TypedDict):
    """The process is alive."""
    status: Literal['ok']
    """Always `ok`."""


class LoadedPlugins(TypedDict):
    """Plugin functions that are loaded in the process that responds."""
    tools: list[str]
    """Names of the loaded tools."""
    guardrails: list[str]
    """Names of the loaded guardrails."""
    hooks: list[str]
    """Names of the loaded hooks."""


class MaxTurnsOutput(TypedDict):
    """A fixed output of a run that reaches its maximum number of turns."""
    output: JsonValue
    """Fixed output of the run when it reaches `max_turns`. The run then ends as `completed`."""


class MaxTurnsOutputInput(TypedDict):
    """A fixed output of a run that reaches its maximum number of turns."""
    output: JsonValue
    """Fixed output of the run when it reaches `max_turns`. The run then ends as `completed`."""


class McpCapabilities(TypedDict):
    """Support for MCP servers."""
    installed: bool
    """Whether the MCP SDK is installed."""
    commands: list[str]
    """Commands that the operator allows for starting MCP servers."""


class McpLogin(TypedDict):
    """A login to an MCP server. It is complete when a person has logged in at `url`."""
    object: Literal['mcp_login']
    """Always `mcp_login`."""
    server: str
    """Name of the MCP server."""
    url: str
    """URL of the login page. A person opens it in a browser."""
    expires_at: str
    """When the URL expires. A new login replaces an earlier one."""


class McpOAuth(TypedDict):
    """OAuth credentials of an MCP server. Runward hides the values of secrets and shows
    references to secrets."""
    grant_type: GrantType
    """How Runward gets access tokens. `authorization_code`: a person logs in with a browser."""
    client_id: str | None
    """Client ID of Runward at the authorization server. Null: Runward registers itself when a
    person logs in."""
    client_secret: str | SecretReference | None
    """Client secret, or a reference to a secret of the project. Null if no client secret is set."""
    private_key: str | SecretReference | None
    """Private key that Runward uses to authenticate at the token endpoint, or a reference to a
    secret of the project. Null if no private key is set."""
    refresh_token: str | SecretReference | None
    """Refresh token that Runward uses to fetch access tokens, or a reference to a secret of the
    project. Null if no refresh token is set."""
    token_url: str | None
    """URL of the token endpoint. Null: Runward discovers it from the MCP server's metadata."""
    issuer: str | None
    """Issuer of the only authorization server that may receive the credentials. Null: the
    authorization server that the MCP server names."""
    scope: str | None
    """Scopes that Runward requests, separated by spaces. Null: the scopes that the MCP server
    names."""
    token_endpoint_auth_method: str | None
    """How Runward sends the client secret to the token endpoint. Null: Runward chooses a method
    that the authorization server supports."""
    logged_in_at: str | None
    """When a person last logged in to the MCP server. Null if nobody is logged in."""
    login_status: LoginStatus | None
    """Status of the login. `required`: a person must log in. `pending`: a login has started and
    is not complete. `logged_in`: Runward has tokens. `expired`: the access token has expired
    and there is no refresh token, so a person must log in again. Null if `grant_type` is not
    `authorization_code`."""
    login_error: str | None
    """Error of the last login. Null if the last login succeeded or is not complete."""


class McpServer(TypedDict):
    """A registered MCP server. Runward never shows the values of its headers."""
    id: str
    """ID of the MCP server. Globally unique."""
    object: Literal['mcp_server']
    """Always `mcp_server`."""
    name: str
    """Name of the MCP server. Unique in the project."""
    url: str | None
    """URL of the MCP server. Null if Runward starts it with a command."""
    command: str | None
    """Command that starts the MCP server. Null if the server has a URL."""
    args: list[str]
    """Arguments of the command."""
    headers: dict[str, str | SecretReference]
    """HTTP headers that Runward sends with every request. Values are shown as `…`, and
    references to secrets are shown unchanged."""
    oauth: McpOAuth | None
    """OAuth credentials of the MCP server. Null if no credentials are set."""
    tools: ToolFilter
    """Filter that selects which tools of the server the project uses."""
    prefix: str | None
    """Prefix of the tool names in this project. Null: the name of the server."""
    approval: Any
    """Whether calls of the server's tools need approval. Null: `never` for tools that the server
    marks with `readOnlyHint`, and `always` for all others."""
    timeout_seconds: float | None
    """Timeout of one call of the server's tools, in seconds. Null: the run's
    `limits.tool_timeout_seconds`, or the default of the deployment."""
    tool_names: list[str]
    """Names of the server's tools in this project."""
    skipped: list[SkippedTool]
    """Tools of the server that cannot become tools of the project."""
    version: int
    """Version of the registration. It starts at 1 and grows by 1 with each update."""
    listed_at: str
    """When Runward last listed the server's tools."""
    created_at: str
    """When the MCP server was registered."""
    updated_at: str
    """When this version of the resource was created."""


class McpServerList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[McpServer]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class McpToolSource(TypedDict):
    """The MCP server that a tool of type `mcp` belongs to, and the tool's name on that server."""
    server: str
    """Name of the registered MCP server."""
    tool: str
    """Name of the tool on the MCP server."""


class McpTools(TypedDict):
    """Tools of a registered MCP server. Settings such as `approval` apply only to this run or
    agent. Null or a missing setting: the setting of the registered tool."""
    timeout_seconds: NotRequired[float | None]
    """Timeout of one call in seconds, including all its attempts. Null: the run's
    `limits.tool_timeout_seconds` or, if that is null, the default of the deployment. For
    tools of type `client`, null means no timeout."""
    on_timeout: NotRequired[FailureMode | FailureMessageInput | None]
    """What happens after a timeout. `return_error`: the model reads an error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object."""
    on_error: NotRequired[FailureMode | FailureMessageInput | None]
    """What happens after an error. `return_error`: the model reads the error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. A plugin's tool can
    also use a function of the plugin."""
    on_unknown: NotRequired[UnknownOutcomeMode | None]
    """What happens if Runward does not know whether a call took effect. `return_error`: the
    model reads an error. `ask`: a person must record the outcome. `fail_run`: the run fails."""
    approval: NotRequired[ApprovalMode | CelRuleInput | None]
    """Whether a person must approve each call of the tool: `never`, `always`, or a CEL rule that
    uses `args`, `context`, `run`, and `tool`. A plugin's tool can also use a function of the
    plugin."""
    approval_expires_seconds: NotRequired[float | None]
    """Number of seconds until an approval expires. When it expires, the model reads that nobody
    decided. Default: 7 days. Maximum: 365 days."""
    reject_message: NotRequired[str | None]
    """Message that the model reads if an approver rejects a call without a message. Null:
    Runward uses a built-in message."""
    enabled: NotRequired[bool | CelRuleInput | None]
    """Whether models see the tool: true, false, or a CEL rule that Runward evaluates in every
    turn. A plugin's tool can also use a function of the plugin."""
    defer: NotRequired[bool | None]
    """Whether models see the tool only after they have found it with `search_tools`. If an agent
    has such a tool, Runward gives the model `search_tools`."""
    guardrails: NotRequired[list[GuardrailInput] | None]
    """Guardrails that check the calls and results of this tool. Runward signs their webhook
    requests with the tool's secret."""
    concurrency: NotRequired[ConcurrencyInput | None]
    """How many calls of the tool may run at the same time within one run."""
    max_output_bytes: NotRequired[int | None]
    """Maximum size in bytes of a result that the model reads. If a result is longer, Runward
    stores it in full, and the model reads a truncated version."""
    metadata: NotRequired[dict[str, JsonValue] | None]
    """Custom metadata of the tool. CEL rules can read it as `tool.metadata`."""
    type: Literal['mcp']
    """Always `mcp`."""
    server: str
    """Name of the registered MCP server."""
    tool: NotRequired[str | None]
    """Name of the tool on the MCP server. Null: all tools of the server."""


class MessageCompletedData(TypedDict):
    """Data of a `message.completed` event."""
    turn: int
    """Number of the current turn, counted from 1 in each run."""
    agent: str | None
    """Name of the agent that executes the turn. Null if the run uses no registered agent."""
    text: str
    """Complete text that the model generated in this turn."""
    refusal: bool
    """Whether the text is a refusal by the model."""


class MessageCompletedEvent(TypedDict):
    """The model's complete text of one turn."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['message.completed']
    """Always `message.completed`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: MessageCompletedData
    """Data of the event. Its fields depend on the event's type."""


class MessageDeltaEvent(TypedDict):
    """A piece of the model's text, streamed while the model generates it."""
    type: Literal['message.delta']
    """Always `message.delta`."""
    run_id: str
    """ID of the run."""
    data: TextDeltaData
    """Data of the event. Its fields depend on the event's type."""


class MessageItem(TypedDict):
    """A message from a user, a model, or the system."""
    type: Literal['message']
    """Always `message`."""
    role: MessageRole
    """Role of the author of the message."""
    content: str | list[ItemPart]
    """Content of the message: a string, or a list of text, image, and file parts."""
    refusal: NotRequired[Literal[True]]
    """True if the message is a refusal by the model."""
    native: NotRequired[ProviderData]
    """Data of the message in the provider's format. Missing if the provider returned no such
    data."""


class MessageRestartedData(TypedDict):
    """Data of a `message.restarted` event."""
    turn: int
    """Number of the current turn, counted from 1 in each run."""
    agent: str | None
    """Name of the agent that executes the turn. Null if the run uses no registered agent."""


class MessageRestartedEvent(TypedDict):
    """The model's stream was interrupted and starts again. Discard the pieces of this turn."""
    type: Literal['message.restarted']
    """Always `message.restarted`."""
    run_id: str
    """ID of the run."""
    data: MessageRestartedData
    """Data of the event. Its fields depend on the event's type."""


class ModelCallsChangedData(TypedDict):
    """Data of a `model.calls_changed` event."""
    turn: int
    """Number of the current turn, counted from 1 in each run."""
    agent: str | None
    """Name of the agent that executes the turn. Null if the run uses no registered agent."""
    hook: str
    """The hook that changed the calls, such as `hook (after_model) of plugin shop.limit`."""
    requested_calls: list[RequestedCallData] | None
    """Tool calls that the model requested. Null if they are larger than 32 KiB."""
    requested_calls_bytes: NotRequired[int]
    """Size of `requested_calls` in bytes. Set only if they are too large for the event."""
    truncated: NotRequired[Literal[True]]
    """True if `requested_calls` is too large for the event."""


class ModelCallsChangedEvent(TypedDict):
    """An `after_model` hook changed the tool calls of the model's response. The data contains
    the calls that the model requested. The hook's calls follow as `tool_call.created` events."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['model.calls_changed']
    """Always `model.calls_changed`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ModelCallsChangedData
    """Data of the event. Its fields depend on the event's type."""


class ModelCapabilities(TypedDict):
    """Features that Runward supports for the models of one provider. A single model can support
    fewer."""
    settings: list[str]
    """Supported fields of `model_settings`. `reasoning.summary` is the field `summary` of
    `reasoning`."""
    tool_choices: list[str]
    """Supported values of `tool_choice`. `named`: an object with the name of a tool."""
    single_tool_calls: bool
    """Whether `parallel_tool_calls` can be false."""
    strict_tools: bool
    """Whether the provider can enforce the schemas of tools that have `strict`."""
    output_schema: bool
    """Whether the provider can enforce an `output_schema`."""
    images: bool
    """Whether messages can contain images."""
    files: bool
    """Whether messages can contain files."""
    tool_media: ToolMedia
    """Where the model receives images and files of a tool. `in_result`: in the result of the
    tool call. `after_results`: in a user message after the results."""
    hosted: list[str]
    """Kinds of hosted tools that the provider can run."""
    executors: list[str]
    """Kinds of provider tools that a webhook or plugin tool can run in place of the provider.
    All other kinds are sent as functions."""


class ModelList(TypedDict):
    """Agents and models."""
    object: Literal['list']
    """Always `list`."""
    data: list[ModelObject]
    """Agents in the order of their names, followed by models."""


class ModelObject(TypedDict):
    """An agent or a model, in OpenAI's format."""
    id: str
    """Name of the agent, or the model as `provider:model`. Send it as `model`."""
    object: Literal['model']
    """Always `model`."""
    created: int
    """When the agent was registered, as a Unix timestamp in seconds. 0 for models."""
    owned_by: str
    """`runward` for agents. The name of the provider for models."""


class ModelRetriedData(TypedDict):
    """Data of a `model.retried` event."""
    code: str
    """Stable code of the reason, for programs."""
    message: str
    """Description of the reason, for people."""
    model: NotRequired[str]
    """Model of the next request. Set only if a request failed."""
    after_seconds: NotRequired[float]
    """Delay before the next request, in seconds. Set only if a request failed."""


class ModelRetriedEvent(TypedDict):
    """A model request failed, or the model returned an invalid output or a malformed call.
    Runward sends another request to the same model or to the next one."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['model.retried']
    """Always `model.retried`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ModelRetriedData
    """Data of the event. Its fields depend on the event's type."""


class ModelSettingDroppedData(TypedDict):
    """Data of a `model.setting_dropped` event."""
    model: str
    """Model that does not support the omitted part of the request."""
    setting: str
    """Name of the omitted setting, or of another omitted part of the request."""
    reason: str
    """Why Runward omitted this part of the request, for people."""


class ModelSettingDroppedEvent(TypedDict):
    """Runward omitted a part of the request, because the model does not support it, because
    `tools_in_prompt` is set, or because it exceeds the model's context window."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['model.setting_dropped']
    """Always `model.setting_dropped`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ModelSettingDroppedData
    """Data of the event. Its fields depend on the event's type."""


class NamedToolChoice(TypedDict):
    """The tool that the model must call."""
    name: str
    """Name of the tool that the model must call."""


class NamedToolChoiceInput(TypedDict):
    """The tool that the model must call."""
    name: str
    """Name of the tool that the model must call."""


class NestedFunctionTool(TypedDict):
    """A tool in the format of OpenAI's Chat Completions API. With a `url`, it is a tool of type
    `webhook`. Without a `url`, it is a tool of type `client`. All other options of these
    types are allowed."""
    output_schema: NotRequired[JsonObject | None]
    """JSON Schema of the result. If a result does not match, the model reads an error. Null:
    results are not validated."""
    url: NotRequired[str | None]
    """URL of a webhook tool, or of the MCP server of a tool of type `mcp`. Null for all other
    types."""
    response: NotRequired[ToolResponseMode]
    """How Runward reads the response of a webhook tool. `output`: the response is the output of
    the call. `envelope`: requests contain the shared `state`, and the response is an object
    with `output`, `state`, `transfer_to`, `escalate`, and `metadata`, which are all optional.
    Default: `output`."""
    headers: NotRequired[dict[str, str | SecretReferenceInput]]
    """HTTP headers that Runward sends with every call. A string is stored encrypted and never
    shown again. An object refers to a secret of the project."""
    timeout_seconds: NotRequired[float | None]
    """Timeout of one call in seconds, including all its attempts. Null: the run's
    `limits.tool_timeout_seconds` or, if that is null, the default of the deployment. For
    tools of type `client`, null means no timeout."""
    on_timeout: NotRequired[FailureMode | FailureMessageInput]
    """What happens after a timeout. `return_error`: the model reads an error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. Default:
    `return_error`."""
    on_error: NotRequired[FailureMode | FailureMessageInput]
    """What happens after an error. `return_error`: the model reads the error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. A plugin's tool can
    also use a function of the plugin. Default: `return_error`."""
    idempotent: NotRequired[bool]
    """Whether the tool may safely receive the same call more than once. If true, Runward can
    send a call again when its outcome is unknown. Default: false."""
    on_unknown: NotRequired[UnknownOutcomeMode]
    """What happens if Runward does not know whether a call took effect. `return_error`: the
    model reads an error. `ask`: a person must record the outcome. `fail_run`: the run fails.
    Default: `return_error`."""
    retry: NotRequired[RetryInput]
    """How many times Runward retries a call and how long it waits between attempts."""
    approval: NotRequired[ApprovalMode | CelRuleInput]
    """Whether a person must approve each call of the tool: `never`, `always`, or a CEL rule that
    uses `args`, `context`, `run`, and `tool`. A plugin's tool can also use a function of the
    plugin. Default: `never`."""
    approval_expires_seconds: NotRequired[float]
    """Number of seconds until an approval expires. When it expires, the model reads that nobody
    decided. Default: 7 days. Maximum: 365 days."""
    reject_message: NotRequired[str | None]
    """Message that the model reads if an approver rejects a call without a message. Null:
    Runward uses a built-in message."""
    enabled: NotRequired[bool | CelRuleInput]
    """Whether models see the tool: true, false, or a CEL rule that Runward evaluates in every
    turn. A plugin's tool can also use a function of the plugin. Default: true."""
    defer: NotRequired[bool]
    """Whether models see the tool only after they have found it with `search_tools`. If an agent
    has such a tool, Runward gives the model `search_tools`. Default: false."""
    guardrails: NotRequired[list[GuardrailInput]]
    """Guardrails that check the calls and results of this tool. Runward signs their webhook
    requests with the tool's secret. Default: an empty list."""
    concurrency: NotRequired[ConcurrencyInput]
    """How many calls of the tool may run at the same time within one run."""
    max_output_bytes: NotRequired[int]
    """Maximum size in bytes of a result that the model reads. If a result is longer, Runward
    stores it in full, and the model reads a truncated version. Default: 65536."""
    metadata: NotRequired[dict[str, JsonValue]]
    """Custom metadata of the tool. CEL rules can read it as `tool.metadata`."""
    type: Literal['function']
    """Always `function`."""
    function: FunctionDefinition
    """The function: its name, its description, and its parameters."""


class NestedFunctionToolChoice(TypedDict):
    """The tool that the model must call, as in OpenAI's Chat Completions API."""
    type: Literal['function']
    """Always `function`."""
    function: FunctionName
    """The tool that the model must call."""


class NewKey(TypedDict):
    """An API key that was just created, with its secret."""
    id: str
    """ID of the API key. `created_by` of runs and `decided_by` of approvals refer to it."""
    object: Literal['key']
    """Always `key`."""
    name: str
    """Name of the API key."""
    scopes: list[Scope]
    """Scopes of the API key."""
    created_at: str
    """When the API key was created."""
    expires_at: str | None
    """When the API key expires. Null if it does not expire."""
    revoked_at: str | None
    """When the API key was revoked. Null if it is not revoked."""
    last_used_at: str | None
    """When the API key was last used, accurate to a minute. Null if it was never used."""
    key: str
    """The API key itself (`rw_…`). Runward returns it only once."""


class NewTool(TypedDict):
    """A tool that was just registered, with its signing secret."""
    name: str
    """Name of the tool that models use to call it. Unique in the project."""
    description: str
    """Description of the tool for the model: what the tool does and when to use it."""
    parameters: JsonObject
    """JSON Schema of the arguments. Its type must be `object`. If the arguments of a call do not
    match the schema, Runward does not send the call."""
    output_schema: JsonObject | None
    """JSON Schema of the result. If a result does not match, the model reads an error. Null:
    results are not validated."""
    type: ToolType
    """How Runward executes the tool. `webhook`: a signed POST request to `url`. `agent`: a child
    run. `client`: the client runs the tool and submits the result. `hosted`: the model's
    provider runs the tool. `plugin`: a function that is installed with the service. `mcp`: a
    tool of a registered MCP server."""
    url: str | None
    """URL of a webhook tool, or of the MCP server of a tool of type `mcp`. Null for all other
    types."""
    agent: str | None
    """Name of the agent that executes the child run. Set only for tools of type `agent`."""
    output: ChildOutput | ChildToolOutput
    """Which part of the child run becomes the result of a tool of type `agent`. `final`: the
    final output. `json`: the final output parsed as JSON. An object: the last successful
    output of the named tool."""
    response: ToolResponseMode
    """How Runward reads the response of a webhook tool. `output`: the response is the output of
    the call. `envelope`: requests contain the shared `state`, and the response is an object
    with `output`, `state`, `transfer_to`, `escalate`, and `metadata`, which are all optional."""
    headers: dict[str, str | SecretReference]
    """HTTP headers that Runward sends with every call. Values are shown as `…`, and references
    to secrets are shown unchanged."""
    strict: bool
    """Whether the model must follow the schema exactly. If true, all properties are required,
    and additional properties are not allowed. Optional properties become nullable."""
    timeout_seconds: float | None
    """Timeout of one call in seconds, including all its attempts. Null: the run's
    `limits.tool_timeout_seconds` or, if that is null, the default of the deployment. For
    tools of type `client`, null means no timeout."""
    on_timeout: FailureMode | FailureMessage
    """What happens after a timeout. `return_error`: the model reads an error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object."""
    on_error: FailureMode | FailureMessage | FailureFunction
    """What happens after an error. `return_error`: the model reads the error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. A plugin's tool can
    also use a function of the plugin."""
    idempotent: bool
    """Whether the tool may safely receive the same call more than once. If true, Runward can
    send a call again when its outcome is unknown."""
    on_unknown: UnknownOutcomeMode
    """What happens if Runward does not know whether a call took effect. `return_error`: the
    model reads an error. `ask`: a person must record the outcome. `fail_run`: the run fails."""
    retry: Retry
    """How many times Runward retries a call and how long it waits between attempts."""
    approval: ApprovalMode | CelRule | CallableRule
    """Whether a person must approve each call of the tool: `never`, `always`, or a CEL rule that
    uses `args`, `context`, `run`, and `tool`. A plugin's tool can also use a function of the
    plugin."""
    approval_expires_seconds: float
    """Number of seconds until an approval expires. When it expires, the model reads that nobody
    decided. Default: 7 days. Maximum: 365 days."""
    reject_message: str | None
    """Message that the model reads if an approver rejects a call without a message. Null:
    Runward uses a built-in message."""
    enabled: bool | CelRule | CallableRule
    """Whether models see the tool: true, false, or a CEL rule that Runward evaluates in every
    turn. A plugin's tool can also use a function of the plugin."""
    defer: bool
    """Whether models see the tool only after they have found it with `search_tools`. If an agent
    has such a tool, Runward gives the model `search_tools`."""
    guardrails: list[Guardrail]
    """Guardrails that check the calls and results of this tool. Runward signs their webhook
    requests with the tool's secret."""
    concurrency: Concurrency
    """How many calls of the tool may run at the same time within one run."""
    max_output_bytes: int
    """Maximum size in bytes of a result that the model reads. If a result is longer, Runward
    stores it in full, and the model reads a truncated version."""
    metadata: dict[str, JsonValue]
    """Custom metadata of the tool. CEL rules can read it as `tool.metadata`."""
    code: str | None
    """Digest of a plugin tool's source code, or of the command of an MCP server. A new digest
    creates a new version of the tool. Null for other tools."""
    mcp: McpToolSource | None
    """MCP server of the tool, and the tool's name on that server. Set only for tools of type
    `mcp`."""
    hosted: HostedTool | None
    """The tool that the model's provider runs. Set only for tools of type `hosted`."""
    implements: ExecutorKind | None
    """Kind of tool that providers define and that this webhook or plugin tool runs instead. The
    kind sets the tool's parameters. Calls need approval unless `approval` is set."""
    settings: ComputerSettings | None
    """Screen of a tool that implements `computer`. Models read the size of the screen. Null:
    models learn the size only from the images."""
    id: str
    """ID of the tool. Globally unique."""
    object: Literal['tool']
    """Always `tool`."""
    version: int
    """Version of the tool. It starts at 1 and grows by 1 with each update. A call uses the
    version that the model saw."""
    created_at: str
    """When the tool was registered."""
    updated_at: str
    """When this version of the resource was created."""
    secret: str
    """Signing secret of the tool's calls (`whsec_…`). Runward returns it only once."""


class NewWebhookEndpoint(TypedDict):
    """A webhook endpoint that was just created, with its signing secret."""
    id: str
    """ID of the webhook endpoint."""
    object: Literal['webhook_endpoint']
    """Always `webhook_endpoint`."""
    url: str
    """URL that receives the notifications."""
    description: str
    """Description for people."""
    events: list[str]
    """Types of the notifications that the endpoint receives."""
    include: list[str]
    """Content that the notifications contain."""
    enabled: bool
    """Whether the endpoint receives notifications."""
    disabled_reason: DisabledReason | None
    """Why Runward disabled the endpoint. Null if it is enabled, or if a client disabled it."""
    failing_since: str | None
    """When the first of the latest attempts failed. Null if the last attempt was successful."""
    created_at: str
    """When the endpoint was created."""
    updated_at: str
    """When the endpoint was last updated."""
    secret: str
    """Signing secret of the notifications (`whsec_…`). Runward returns it only once."""


class Notification(TypedDict):
    """A notification of an event to a webhook endpoint."""
    type: str
    """Type of the notification, such as `run.completed`. docs/how-to/webhook-endpoints.md lists
    the types."""
    id: str
    """ID of the event, and the `webhook-id` of the request. Use it to recognize a repeated
    notification."""
    timestamp: str
    """When the event was committed, according to the database's clock."""
    data: JsonObject
    """Data of the event: `run_id`, `sequence`, and the fields of the event that contain no texts
    or values of clients, models, tools, and approvers. With `include`, the data of the last
    event of a run is complete."""


class OAuth(TypedDict):
    """OAuth 2.1 credentials that Runward uses to fetch access tokens for an MCP server."""
    grant_type: NotRequired[GrantType | None]
    """How Runward gets access tokens. `authorization_code`: a person logs in with a browser.
    Null: `refresh_token` if a refresh token is set, and `client_credentials` otherwise."""
    client_id: NotRequired[str | None]
    """Client ID of Runward at the authorization server. Required unless `grant_type` is
    `authorization_code`. Null: Runward registers itself when a person logs in."""
    client_secret: NotRequired[str | SecretReferenceInput | None]
    """Client secret, or a reference to a secret of the project. Required for the grant
    `client_credentials` unless `private_key` is set."""
    private_key: NotRequired[str | SecretReferenceInput | None]
    """Private key in PEM format, or a reference to a secret of the project. Runward signs a JWT
    with it to authenticate at the token endpoint (`private_key_jwt`)."""
    refresh_token: NotRequired[str | SecretReferenceInput | None]
    """Refresh token, or a reference to a secret of the project. Null: Runward uses the grant
    `client_credentials`."""
    token_url: NotRequired[str | None]
    """URL of the token endpoint. Null: Runward discovers it from the MCP server's metadata."""
    issuer: NotRequired[str | None]
    """Issuer of the only authorization server that may receive the credentials. Not allowed with
    `token_url`. Null: the authorization server that the MCP server names."""
    scope: NotRequired[str | None]
    """Scopes to request, separated by spaces. Null: the scopes that the MCP server names."""
    token_endpoint_auth_method: NotRequired[AuthMethod | None]
    """How Runward sends the client secret to the token endpoint. Null: Runward chooses a method
    that the authorization server supports."""


class OmittedArgument(TypedDict):
    """An argument that Runward omitted from a response because of its size."""
    name: str | None
    """Name of the omitted argument. Null for an entry that represents several arguments."""
    bytes: int
    """Size of the omitted arguments that the entry represents, in bytes of JSON."""


class OpenAIError(TypedDict):
    """An error in OpenAI's format."""
    error: OpenAIErrorDetails
    """Details of the error."""


class OpenAIErrorDetails(TypedDict):
    """Details of an error, in OpenAI's format."""
    message: str
    """Description of the error, for people."""
    type: str
    """Type of the error: `invalid_request_error`, `authentication_error`, `permission_error`,
    `rate_limit_error`, or `server_error`."""
    param: str | None
    """Name of the invalid value of the request. Null if the error is not about a single value."""
    code: str | None
    """Stable error code, for programs."""


class PendingAction(TypedDict):
    """A tool call that waits for a person or a client. The arguments are not included."""
    type: ActionType
    """Why the call waits. `approval`: a person must decide on the call. `resolve`: a person must
    record the unknown outcome of the call. `tool_result`: the client must submit the result
    of a client tool, or input that a tool requests."""
    run_id: str
    """ID of the run that made the call."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool."""
    approval_id: str | None
    """ID of the approval. Set only for the type `approval`."""
    requested_at: str
    """When the call started to wait. For a call without an approval, this is the start of its
    last attempt or, if there was none, the time of the model's request."""
    expires_at: str | None
    """When the wait ends automatically. Null for the type `resolve`, because these calls have no
    time limit."""


class PendingCounts(TypedDict):
    """Number of waiting tool calls by type. Each number is at most 100, or `limit` if that is
    larger: this value means that at least so many calls wait."""
    approval: int
    """Number of calls that need a decision."""
    resolve: int
    """Number of calls whose outcome a person must record."""
    tool_result: int
    """Number of calls that need a result or input from the client."""


class PluginGuardrail(TypedDict):
    """A guardrail that is a function of a plugin."""
    stage: GuardrailStage
    """Stage at which Runward calls the guardrail: before an approval is created
    (`pre_approval`), before the call is sent (`input`), or after the call returned a result
    (`output`). Guardrails of agents and projects can also check the run's input (`run_input`)
    and final output (`run_output`)."""
    type: Literal['plugin']
    """`plugin`: Runward calls a function of a plugin."""
    name: str
    """Name of the function, as the plugin registered it."""
    timeout_seconds: NotRequired[float]
    """Timeout of one check or hook, in seconds. If a guardrail times out, Runward treats the
    timeout as a rejection. If a hook times out, the hook fails."""


class PluginGuardrailInput(TypedDict):
    """A guardrail that is a function of a plugin."""
    stage: GuardrailStage
    """Stage at which Runward calls the guardrail: before an approval is created
    (`pre_approval`), before the call is sent (`input`), or after the call returned a result
    (`output`). Guardrails of agents and projects can also check the run's input (`run_input`)
    and final output (`run_output`)."""
    type: Literal['plugin']
    """`plugin`: Runward calls a function of a plugin."""
    name: str
    """Name of the function, as the plugin registered it."""
    timeout_seconds: NotRequired[float]
    """Timeout of one check or hook, in seconds. If a guardrail times out, Runward treats the
    timeout as a rejection. If a hook times out, the hook fails. Default: 10."""


class PluginHook(TypedDict):
    """A hook that is a function of a plugin."""
    on: HookPoint
    """Point at which Runward calls the hook: before or after a model request, or before or after
    a tool call."""
    type: Literal['plugin']
    """`plugin`: Runward calls a function of a plugin."""
    name: str
    """Name of the function, as the plugin registered it."""
    timeout_seconds: NotRequired[float]
    """Timeout of one check or hook, in seconds. If a guardrail times out, Runward treats the
    timeout as a rejection. If a hook times out, the hook fails."""


class PluginHookInput(TypedDict):
    """A hook that is a function of a plugin."""
    on: HookPoint
    """Point at which Runward calls the hook: before or after a model request, or before or after
    a tool call."""
    type: Literal['plugin']
    """`plugin`: Runward calls a function of a plugin."""
    name: str
    """Name of the function, as the plugin registered it."""
    timeout_seconds: NotRequired[float]
    """Timeout of one check or hook, in seconds. If a guardrail times out, Runward treats the
    timeout as a rejection. If a hook times out, the hook fails. Default: 10."""


class Policy(TypedDict):
    """The hooks and guardrails that apply to every run of the project."""
    object: Literal['policy']
    """Always `policy`."""
    hooks: list[Hook]
    """Hooks around every model request and every tool call. Runward calls them after the agent's
    own hooks."""
    guardrails: list[Guardrail]
    """Guardrails for every tool call and every run. Runward calls them after the guardrails of
    the tool and the agent."""
    version: int
    """Version of the policy. It grows by 1 with each update. 0 if the policy was never set."""
    updated_at: str | None
    """When the policy was last set. Null if it was never set."""


class Problem(TypedDict):
    """An error in the format of RFC 9457. Programs should compare `code`, because texts may
    change. Some errors contain additional fields. For example, `approval` contains the
    approval if another decision came first."""
    type: str
    """URN of the error type. It ends with the value of `code`."""
    title: str
    """Name of the HTTP status."""
    status: int
    """HTTP status code."""
    detail: str
    """Description of the error, for people."""
    code: ErrorCode
    """Stable error code, for programs."""
    request_id: str
    """ID of the request, as in the `X-Request-Id` header and in Runward's log."""
    errors: list[ProblemError]
    """Invalid values of the request. Each entry describes one value. Empty if the error has
    another cause."""


class ProblemError(TypedDict):
    """One invalid value of a request."""
    path: str
    """Path of the invalid value. For a value in the body, this is a dotted path such as
    `tools.0.name`, or an empty string for the body itself. Other paths have a prefix, such as
    `query.limit` or `header.Idempotency-Key`."""
    message: str
    """Requirement that the value does not meet. The message never contains the value."""


class Project(TypedDict):
    """A project, which has its own tools, runs, and API keys."""
    id: str
    """ID of the project. Use it to create the project's API keys."""
    object: Literal['project']
    """Always `project`."""
    name: str
    """Name of the project."""
    created_at: str
    """When the project was created."""


class ProjectLimits(TypedDict):
    """The limits of the project. Null: there is no such limit."""
    object: Literal['limits']
    """Always `limits`."""
    running_runs: int | None
    """Maximum number of runs that run at the same time, including child runs."""
    queued_runs: int | None
    """Maximum number of runs with the status `queued`, without child runs."""
    requests_per_minute: int | None
    """Maximum number of requests in a minute by all API keys of the project."""
    event_streams: int | None
    """Maximum number of event streams that the project can have open in one process."""
    concurrency: list[ConcurrencyLimit]
    """Limits for single agents and single tools in the order of their names, and then for runs
    with the same value of a key."""
    keys: list[KeyLimits]
    """Limits of single API keys, in the order of their IDs."""
    updated_at: str | None
    """When the limits were last set. Null if they were never set."""


class ProjectList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[Project]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class ProviderData(TypedDict):
    """Provider-specific data of an item, in the provider's format."""
    provider: str
    """Name of the provider that can read the data."""
    data: JsonObject
    """Data in the provider's format, unchanged."""


class PutLegalHold(TypedDict):
    """Options of a legal hold."""
    reason: NotRequired[str]
    """Reason for the hold, for people. Default: an empty string."""


class PutPolicy(TypedDict):
    """The complete policy of the project. Fields that are left out become empty."""
    hooks: NotRequired[list[HookInput]]
    """Hooks around every model request and every tool call. Runward calls them after the agent's
    own hooks. Default: an empty list."""
    guardrails: NotRequired[list[GuardrailInput]]
    """Guardrails for every tool call and every run. Runward calls them after the guardrails of
    the tool and the agent. Default: an empty list."""


class PutProjectLimits(TypedDict):
    """The complete limits of the project. A limit that is left out, or null, does not exist."""
    running_runs: NotRequired[int | None]
    """Maximum number of runs that run at the same time, including child runs. Runs that wait for
    approvals, callbacks, clients or child runs do not count. Further runs wait in the queue."""
    queued_runs: NotRequired[int | None]
    """Maximum number of runs with the status `queued`, without child runs. Further runs are
    rejected with 429 `too_many_requests`."""
    requests_per_minute: NotRequired[int | None]
    """Maximum number of requests in a minute by all API keys of the project. Further requests
    are rejected with 429 `too_many_requests`. Requests to `/v1/limits` do not count."""
    event_streams: NotRequired[int | None]
    """Maximum number of event streams that the project can have open in one process. Further
    streams are rejected with 429 `too_many_requests`."""
    concurrency: NotRequired[list[ConcurrencyLimitInput]]
    """Limits for single agents, for single tools, and for runs with the same value of a key: up
    to 100, of which up to 10 can have keys. They apply together with `running_runs`. Default:
    an empty list."""
    keys: NotRequired[list[KeyLimitsInput]]
    """Limits of single API keys, up to 1,000. They apply together with the limits of the
    project. Default: an empty list."""


class PutRetention(TypedDict):
    """The complete retention of the project: the number of days for which Runward keeps each
    class of data. A class that is left out has the default of the deployment. Null keeps its
    data forever."""
    runs: NotRequired[int | None]
    """All content of runs, after the end of the run: input, output, conversation, tool calls,
    approvals and metadata. A record without content stays."""
    events: NotRequired[int | None]
    """The event log of runs, after the end of the run."""
    tool_call_content: NotRequired[int | None]
    """Arguments and results of tool calls, and reasoning of models, after the end of the run."""
    deliveries: NotRequired[int | None]
    """Webhook deliveries, after their creation."""
    audit: NotRequired[int | None]
    """Entries of the audit log, after their creation."""


class PutSecret(TypedDict):
    """The value of a secret. Runward encrypts the value, stores it, and never shows it again."""
    value: str
    """Value of the secret, from 1 to 16,384 characters."""


class Readiness(TypedDict):
    """The process is ready for requests."""
    status: Literal['ready']
    """Always `ready`."""


class ReasoningCompletedData(TypedDict):
    """Data of a `reasoning.completed` event."""
    turn: int
    """Number of the current turn, counted from 1 in each run."""
    agent: str | None
    """Name of the agent that executes the turn. Null if the run uses no registered agent."""
    reasoning: JsonObject
    """Reasoning in the format of the model's provider."""


class ReasoningCompletedEvent(TypedDict):
    """The model's reasoning in one turn. Only some providers return reasoning."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['reasoning.completed']
    """Always `reasoning.completed`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ReasoningCompletedData
    """Data of the event. Its fields depend on the event's type."""


class ReasoningConfig(TypedDict):
    """Settings of the model's reasoning, such as its effort."""
    effort: NotRequired[str | None]
    """Amount of reasoning. Sets `model_settings.reasoning.effort`. Null: the provider's default."""
    summary: NotRequired[str | None]
    """Detail of the summary of the reasoning, such as `auto`. Sets
    `model_settings.reasoning.summary`. Null: no summary."""


class ReasoningDeltaEvent(TypedDict):
    """A piece of the model's reasoning, streamed while the model generates it."""
    type: Literal['reasoning.delta']
    """Always `reasoning.delta`."""
    run_id: str
    """ID of the run."""
    data: TextDeltaData
    """Data of the event. Its fields depend on the event's type."""


class ReasoningItem(TypedDict):
    """Reasoning of a model, in its provider's format."""
    type: Literal['reasoning']
    """Always `reasoning`."""
    provider: str
    """Name of the provider that can read the reasoning."""
    data: JsonObject
    """Reasoning in the provider's format, unchanged."""


class RecentCall(TypedDict):
    """A tool call without its arguments and output. Use `GET /v1/runs/{run_id}/tool_calls` to
    read these fields."""
    id: str
    """Globally unique ID of the call. Runward sends it to the tool as `webhook-id` and
    `Idempotency-Key`."""
    object: Literal['tool_call']
    """Always `tool_call`."""
    call_id: str
    """ID of the call, as the model's provider generated it. Unique within its run."""
    run_id: str
    """ID of the run that made the call."""
    agent: str | None
    """Name of the agent that requested the call. Null if the run uses no registered agent."""
    tool: str
    """Name of the tool."""
    tool_version: int | None
    """Version of the tool. Null if the tool did not exist at the time of the call."""
    phase: CallPhase
    """Current phase of the call."""
    outcome: CallOutcome | None
    """Outcome of the call. Null until `phase` is `settled`."""
    attempt: int
    """Number of attempts of the call, including an attempt that is about to start. 0 if the call
    was never sent."""
    created_at: str
    """When the model requested the call."""
    started_at: str | None
    """When the last attempt started. Null if there was no attempt."""
    ended_at: str | None
    """When the call got its result. Null while the call is open."""
    duration_ms: float | None
    """Milliseconds from the start of the last attempt to the end of the call. This includes the
    time that the call waited for callbacks and people. Null if the call was never sent or has
    not ended."""
    error: CallError | None
    """Error of the call. Null if the call succeeded or is open."""


class RecentCallList(TypedDict):
    """A page of a tool's calls. To get the next page, pass `last_id` as `after`."""
    object: Literal['list']
    """Always `list`."""
    data: list[RecentCall]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""
    summary: CallStatistics
    """Statistics of the tool's newest 100 calls. They do not depend on the page."""


class RegisterAgent(TypedDict):
    """An agent to register: a name and the configuration of its runs."""
    kind: NotRequired[AgentKind]
    """Kind of the agent. `llm` calls a model. The workflows `sequential`, `parallel`, and `loop`
    run the agents in `agents` and have no model. Default: `llm`."""
    model: NotRequired[str | list[str] | None]
    """Model as `provider:model`, such as `openai:gpt-5.2` or `offline:rules`. If this is a list,
    Runward uses the next model when a model fails."""
    instructions: NotRequired[str]
    """Instructions that the model reads before the input. Default: an empty string."""
    tools: NotRequired[list[ToolEntry]]
    """Tools that the model may call: names of registered tools, and definitions of tools that
    only this configuration has. A name that ends with `*`, such as `crm_*`, selects all
    registered tools whose names begin with the part before it when a run starts. If there are
    more than 64 tools, Runward gives the model a tool that searches them. Default: an empty
    list."""
    handoffs: NotRequired[list[str]]
    """Names of agents that may take over the run. For each of them, Runward gives the model a
    tool `transfer_to_NAME`. Default: an empty list."""
    agents: NotRequired[list[str]]
    """Names of the agents that a workflow runs, in order. Set only for the kinds `sequential`,
    `parallel`, and `loop`. Default: an empty list."""
    max_iterations: NotRequired[int]
    """Maximum number of times that a workflow of kind `loop` runs its agents. Default: 10."""
    tool_choice: NotRequired[ToolChoiceInput]
    """Whether the model may (`auto`), must not (`none`), or must (`required`) call a tool. An
    object names the tool that the model must call: `{"name": …}`, or one of the two formats
    of OpenAI's APIs. Responses contain `{"name": …}`. Default: `auto`."""
    reset_tool_choice: NotRequired[bool]
    """Whether Runward changes `tool_choice` to `auto` after the first tool call, so that the
    model can finish. Default: true."""
    parallel_tool_calls: NotRequired[bool]
    """Whether the model may request several tool calls in one turn. Default: true."""
    model_settings: NotRequired[dict[str, JsonValue]]
    """Settings of the model request, such as `temperature`, `max_output_tokens`, or `reasoning`."""
    output_schema: NotRequired[JsonObject | None]
    """JSON Schema of the final output. The run returns the parsed output in `output_parsed`.
    Null: the output is free text."""
    output_retries: NotRequired[int]
    """Maximum number of times that the model may correct an output that does not match
    `output_schema`. If no correction matches, the run ends as `incomplete`. Default: 1."""
    tool_use_behavior: NotRequired[ToolUseMode | StopAtToolsInput]
    """What happens after tool calls. `run_llm_again`: the model reads the results.
    `stop_on_first_tool`: the first successful result becomes the run's output. An object: the
    first successful result of a tool in `stop_at` becomes the run's output. Default:
    `run_llm_again`."""
    on_unknown_tool: NotRequired[FailureMode]
    """What happens if the model calls a tool that does not exist. `return_error`: the model
    reads an error message. `fail_run`: the run fails. Default: `return_error`."""
    on_max_turns: NotRequired[MaxTurnsMode | MaxTurnsOutputInput]
    """What happens when the run reaches `limits.max_turns`. `incomplete`: the run ends as
    `incomplete`. `summarise`: the model writes a last answer without tools. `fail`: the run
    fails. An object: the run completes with its `output`. Default: `incomplete`."""
    limits: NotRequired[LimitsInput]
    """Limits of the run, such as its maximum number of turns."""
    hooks: NotRequired[list[HookInput]]
    """Hooks that Runward calls before and after each model request and each tool call. Default:
    an empty list."""
    guardrails: NotRequired[list[GuardrailInput]]
    """Guardrails that check the run's input, its tool calls, and its final output. Default: an
    empty list."""
    history: NotRequired[HistoryLimitsInput]
    """Limits on how much of the session's earlier conversation the model sees. By default, the
    model sees all of it."""
    name: str
    """Name of the agent. Unique in the project. Runs use it to refer to the agent."""
    description: NotRequired[str | None]
    """Description of the agent, for people and for agents that may hand over a run to this
    agent."""
    metadata: NotRequired[dict[str, JsonValue]]
    """Custom metadata: up to 64 keys and 16 KiB as JSON."""


class RegisterMcpServer(TypedDict):
    """An MCP server to register: either a `url` (streamable HTTP) or a `command`."""
    name: str
    """Name of the MCP server. Unique in the project."""
    url: NotRequired[str | None]
    """URL of the MCP server. Runward calls it over streamable HTTP. Set either `url` or
    `command`."""
    command: NotRequired[str | None]
    """Command that starts the MCP server. Runward then calls the server over standard input and
    output. The operator must allow the command. Set either `url` or `command`."""
    args: NotRequired[list[str]]
    """Arguments of the command. Default: an empty list."""
    tools: NotRequired[ToolFilterInput]
    """Filter that selects which tools of the server the project uses. By default, the project
    uses all tools."""
    prefix: NotRequired[str | None]
    """Prefix of the tool names in this project, followed by an underscore. Null: the name of the
    server."""
    approval: NotRequired[ApprovalMode | CelRuleInput | None]
    """Whether calls of the server's tools need approval. Null: `never` for tools that the server
    marks with `readOnlyHint`, and `always` for all others."""
    timeout_seconds: NotRequired[float | None]
    """Timeout of one call of the server's tools, in seconds. Null: the run's
    `limits.tool_timeout_seconds`, or the default of the deployment."""
    headers: NotRequired[dict[str, str | SecretReferenceInput]]
    """HTTP headers that Runward sends with every request. A string is stored encrypted and never
    shown again. An object refers to a secret of the project."""
    oauth: NotRequired[OAuth | None]
    """OAuth credentials with which Runward fetches access tokens for the MCP server. Runward
    sends an access token with every request. Null: no OAuth."""


class RegisterTool(TypedDict):
    """A tool to register. Tools of type `webhook` need a `url`, tools of type `agent` an
    `agent`, and tools of type `hosted` a `hosted` object. Tools of type `webhook` and
    `client` also need `parameters`, unless `implements` is set. Sizes are in bytes and
    durations in seconds."""
    name: str
    """Name of the tool that models use to call it. Unique in the project."""
    description: NotRequired[str]
    """Description of the tool for the model: what the tool does and when to use it. Default: an
    empty string."""
    parameters: NotRequired[JsonObject]
    """JSON Schema of the arguments. Its type must be `object`. If the arguments of a call do not
    match the schema, Runward does not send the call."""
    output_schema: NotRequired[JsonObject | None]
    """JSON Schema of the result. If a result does not match, the model reads an error. Null:
    results are not validated."""
    type: NotRequired[RegisteredToolType]
    """How Runward executes the tool. `webhook`: a signed POST request to `url`. `agent`: a child
    run. `client`: the client runs the tool and submits the result. `hosted`: the model's
    provider runs the tool. `plugin`: a function that is installed with the service. `mcp`: a
    tool of a registered MCP server. Default: `webhook`."""
    url: NotRequired[str | None]
    """URL of a webhook tool, or of the MCP server of a tool of type `mcp`. Null for all other
    types."""
    agent: NotRequired[str | None]
    """Name of the agent that executes the child run. Set only for tools of type `agent`."""
    output: NotRequired[ChildOutput | ChildToolOutputInput]
    """Which part of the child run becomes the result of a tool of type `agent`. `final`: the
    final output. `json`: the final output parsed as JSON. An object: the last successful
    output of the named tool. Default: `final`."""
    response: NotRequired[ToolResponseMode]
    """How Runward reads the response of a webhook tool. `output`: the response is the output of
    the call. `envelope`: requests contain the shared `state`, and the response is an object
    with `output`, `state`, `transfer_to`, `escalate`, and `metadata`, which are all optional.
    Default: `output`."""
    headers: NotRequired[dict[str, str | SecretReferenceInput]]
    """HTTP headers that Runward sends with every call. A string is stored encrypted and never
    shown again. An object refers to a secret of the project."""
    strict: NotRequired[bool]
    """Whether the model must follow the schema exactly. If true, all properties are required,
    and additional properties are not allowed. Optional properties become nullable. Default:
    true."""
    timeout_seconds: NotRequired[float | None]
    """Timeout of one call in seconds, including all its attempts. Null: the run's
    `limits.tool_timeout_seconds` or, if that is null, the default of the deployment. For
    tools of type `client`, null means no timeout."""
    on_timeout: NotRequired[FailureMode | FailureMessageInput]
    """What happens after a timeout. `return_error`: the model reads an error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. Default:
    `return_error`."""
    on_error: NotRequired[FailureMode | FailureMessageInput]
    """What happens after an error. `return_error`: the model reads the error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. A plugin's tool can
    also use a function of the plugin. Default: `return_error`."""
    idempotent: NotRequired[bool]
    """Whether the tool may safely receive the same call more than once. If true, Runward can
    send a call again when its outcome is unknown. Default: false."""
    on_unknown: NotRequired[UnknownOutcomeMode]
    """What happens if Runward does not know whether a call took effect. `return_error`: the
    model reads an error. `ask`: a person must record the outcome. `fail_run`: the run fails.
    Default: `return_error`."""
    retry: NotRequired[RetryInput]
    """How many times Runward retries a call and how long it waits between attempts."""
    approval: NotRequired[ApprovalMode | CelRuleInput]
    """Whether a person must approve each call of the tool: `never`, `always`, or a CEL rule that
    uses `args`, `context`, `run`, and `tool`. A plugin's tool can also use a function of the
    plugin. Default: `never`."""
    approval_expires_seconds: NotRequired[float]
    """Number of seconds until an approval expires. When it expires, the model reads that nobody
    decided. Default: 7 days. Maximum: 365 days."""
    reject_message: NotRequired[str | None]
    """Message that the model reads if an approver rejects a call without a message. Null:
    Runward uses a built-in message."""
    enabled: NotRequired[bool | CelRuleInput]
    """Whether models see the tool: true, false, or a CEL rule that Runward evaluates in every
    turn. A plugin's tool can also use a function of the plugin. Default: true."""
    defer: NotRequired[bool]
    """Whether models see the tool only after they have found it with `search_tools`. If an agent
    has such a tool, Runward gives the model `search_tools`. Default: false."""
    guardrails: NotRequired[list[GuardrailInput]]
    """Guardrails that check the calls and results of this tool. Runward signs their webhook
    requests with the tool's secret. Default: an empty list."""
    concurrency: NotRequired[ConcurrencyInput]
    """How many calls of the tool may run at the same time within one run."""
    max_output_bytes: NotRequired[int]
    """Maximum size in bytes of a result that the model reads. If a result is longer, Runward
    stores it in full, and the model reads a truncated version. Default: 65536."""
    metadata: NotRequired[dict[str, JsonValue]]
    """Custom metadata of the tool. CEL rules can read it as `tool.metadata`."""
    hosted: NotRequired[HostedToolInput | None]
    """The tool that the model's provider runs. Set only for tools of type `hosted`."""
    implements: NotRequired[ExecutorKind | None]
    """Kind of tool that providers define and that this webhook or plugin tool runs instead. The
    kind sets the tool's parameters. Calls need approval unless `approval` is set."""
    settings: NotRequired[ComputerSettingsInput | None]
    """Screen of a tool that implements `computer`. Models read the size of the screen. Null:
    models learn the size only from the images."""


class RejectDecision(TypedDict):
    """Reject the call."""
    digest: NotRequired[str | None]
    """Digest of the call that the approver saw. If the call has changed since then, Runward
    refuses the decision with 409. Null: Runward does not check the digest."""
    decision: Literal['reject']
    """`reject`: Runward never sends the call."""
    message: NotRequired[str | None]
    """Message for the model. Null: the tool's `reject_message` or a built-in message."""
    remember: NotRequired[RememberOptions | None]
    """How the rejection applies to later calls. Null: it applies only to this call."""


class RememberOptions(TypedDict):
    """Options that apply the decision to later calls, too. The later calls must be for the same
    tool version and come from the same agent."""
    scope: RememberScope
    """Calls to which the decision applies. `run`: later calls of this run. `session`: later
    calls of this run and of later runs of the session."""
    exact_arguments: NotRequired[bool]
    """Whether the decision applies only to calls with identical arguments. Default: false."""
    expires_seconds: NotRequired[float | None]
    """Number of seconds for which Runward remembers the decision. Null: the remembered decision
    does not expire."""


class RequestedCallData(TypedDict):
    """A tool call that the model requested and that Runward has not validated yet."""
    call_id: str
    """ID of the call, as the model's provider generated it."""
    name: str
    """Name of the tool, as the model wrote it."""
    arguments: JsonObject
    """Arguments of the call. Empty if the model's text is not a JSON object."""
    arguments_text: NotRequired[str]
    """Text that the model wrote as arguments. Set only if the text is not a JSON object."""


class RequiredActionList(TypedDict):
    """The tool calls of a project that wait for a person or a client, most urgent first."""
    object: Literal['list']
    """Always `list`."""
    data: list[PendingAction]
    """Tool calls that wait, in this order: unknown outcomes, approvals that expire within an
    hour, other approvals, and client results. Approvals that expire within an hour are
    ordered by expiry. All others are ordered from oldest to newest."""
    counts: PendingCounts
    """Number of waiting calls by type, including those that the list does not contain."""
    has_more: bool
    """Whether there are more waiting calls than the response contains."""


class ResolveAction(TypedDict):
    """A tool call whose outcome is unknown. A person must find out the outcome and record it
    with `POST /v1/runs/{run_id}/tool_calls/{call_id}/resolve`."""
    type: Literal['resolve']
    """Always `resolve`."""
    run_id: str
    """ID of the run that made the call: this run or one of its child runs at any depth."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool that was called."""
    arguments: JsonObject
    """Arguments of the call."""
    path: list[str]
    """Names of the agents of the child runs that lead from this run to the run that made the
    call. Empty if this run made the call."""


class RespondDecision(TypedDict):
    """Set the result of the call without calling the tool."""
    digest: NotRequired[str | None]
    """Digest of the call that the approver saw. If the call has changed since then, Runward
    refuses the decision with 409. Null: Runward does not check the digest."""
    decision: Literal['respond']
    """`respond`: Runward does not call the tool and uses `output` as its result."""
    output: JsonValue
    """Result of the call: any JSON value."""


class ResponseCompletedEvent(TypedDict):
    """The response is complete. This is the last event."""
    type: Literal['response.completed']
    """Always `response.completed`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    response: ResponseObject
    """Current state of the response."""


class ResponseContentPartAddedEvent(TypedDict):
    """A part of a message begins."""
    type: Literal['response.content_part.added']
    """Always `response.content_part.added`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    content_index: int
    """Position of the part in the item's `content`, counted from 0."""
    part: ResponseOutputPart
    """Current state of the message part."""


class ResponseContentPartDoneEvent(TypedDict):
    """A part of a message is complete."""
    type: Literal['response.content_part.done']
    """Always `response.content_part.done`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    content_index: int
    """Position of the part in the item's `content`, counted from 0."""
    part: ResponseOutputPart
    """Current state of the message part."""


class ResponseConversation(TypedDict):
    """A conversation or a session, as an object."""
    id: str
    """ID of the conversation (`conv_…`) or the session (`sess_…`)."""


class ResponseCreatedEvent(TypedDict):
    """Runward created the response."""
    type: Literal['response.created']
    """Always `response.created`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    response: ResponseObject
    """Current state of the response."""


class ResponseFailedEvent(TypedDict):
    """The run failed. This is the last event."""
    type: Literal['response.failed']
    """Always `response.failed`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    response: ResponseObject
    """Current state of the response."""


class ResponseFormatJsonObject(TypedDict):
    """Output format that can be any JSON object."""
    type: Literal['json_object']
    """Always `json_object`."""


class ResponseFormatJsonSchema(TypedDict):
    """Output format with a schema. If the output does not match the schema, the model may
    correct the output once."""
    type: Literal['json_schema']
    """Always `json_schema`."""
    name: NotRequired[str]
    """Name of the schema. Runward returns the name unchanged and does not use it. Default: an
    empty string."""
    schema: JsonObject
    """JSON Schema that the output must match."""
    description: NotRequired[str | None]
    """Description of the schema. Runward returns the description unchanged and does not use it."""
    strict: NotRequired[bool | None]
    """Value that Runward returns unchanged. Runward always validates the output against the
    schema."""


class ResponseFormatText(TypedDict):
    """Output format without a schema."""
    type: Literal['text']
    """Always `text`."""


class ResponseFunctionCallArgumentsDeltaEvent(TypedDict):
    """A piece of a call's arguments."""
    type: Literal['response.function_call_arguments.delta']
    """Always `response.function_call_arguments.delta`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    delta: str
    """Text to append to the arguments."""


class ResponseFunctionCallArgumentsDoneEvent(TypedDict):
    """The arguments of a function call are complete."""
    type: Literal['response.function_call_arguments.done']
    """Always `response.function_call_arguments.done`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    arguments: str
    name: str
    """Name of the function."""


class ResponseFunctionTool(TypedDict):
    """A function that the client runs."""
    name: str
    """Name of the function. The model uses this name to call the function."""
    description: NotRequired[str]
    """Description of the function for the model: what the function does and when to use it.
    Default: an empty string."""
    parameters: NotRequired[JsonObject | None]
    """JSON Schema of the arguments. Its type must be `object`. Null: the function has no
    arguments."""
    strict: NotRequired[bool]
    """Whether the model must follow the schema exactly. Default: false."""
    type: Literal['function']
    """Always `function`."""
    defer_loading: NotRequired[bool]
    """Whether the model sees the function only after it has found it with `search_tools`.
    Default: false."""


class ResponseInProgressEvent(TypedDict):
    """A worker has started the response."""
    type: Literal['response.in_progress']
    """Always `response.in_progress`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    response: ResponseObject
    """Current state of the response."""


class ResponseIncompleteEvent(TypedDict):
    """The run reached a limit or was cancelled. This is the last event."""
    type: Literal['response.incomplete']
    """Always `response.incomplete`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    response: ResponseObject
    """Current state of the response."""


class ResponseInputCompaction(TypedDict):
    """A compacted conversation from `POST /v1/responses/compact`."""
    id: NotRequired[str | None]
    """ID of the item in an earlier response. Optional and ignored."""
    status: NotRequired[str | None]
    """Status of the item in an earlier response. Optional and ignored."""
    type: Literal['compaction']
    """Always `compaction`."""
    encrypted_content: str
    """Encrypted conversation from the compaction item."""
    created_by: NotRequired[str | None]
    """Creator of the compaction item. Accepted but ignored."""


class ResponseInputFile(TypedDict):
    """A file, as a URL or as a data URL."""
    type: Literal['input_file']
    """Always `input_file`."""
    file_url: NotRequired[str | None]
    """URL of the file. The model's provider loads the file from this URL. Null if the file is in
    `file_data`."""
    file_data: NotRequired[str | None]
    """The file as a data URL, such as `data:application/pdf;base64,…`. Null if the file has a
    `file_url`."""
    filename: NotRequired[str | None]
    """File name that the model sees."""


class ResponseInputFunctionCall(TypedDict):
    """A function call that an earlier response requested."""
    id: NotRequired[str | None]
    """ID of the item in an earlier response. Optional and ignored."""
    status: NotRequired[str | None]
    """Status of the item in an earlier response. Optional and ignored."""
    type: Literal['function_call']
    """Always `function_call`."""
    call_id: str
    """ID of the function call."""
    name: str
    """Name of the function."""
    namespace: NotRequired[str | None]
    """Namespace of the function. Null: the function has none."""
    arguments: str
    """Arguments of the call: a JSON object as text."""


class ResponseInputFunctionCallOutput(TypedDict):
    """The result of a function call that the client has run."""
    id: NotRequired[str | None]
    """ID of the item in an earlier response. Optional and ignored."""
    status: NotRequired[str | None]
    """Status of the item in an earlier response. Optional and ignored."""
    type: Literal['function_call_output']
    """Always `function_call_output`."""
    call_id: str
    """ID of the function call that the result belongs to."""
    output: str | list[ResponseInputPart]
    """Result of the call: a string, or a list of parts."""
    name: NotRequired[str | None]
    """Name of the function. Optional and ignored."""
    namespace: NotRequired[str | None]
    """Namespace of the function. Optional and ignored."""


class ResponseInputImage(TypedDict):
    """An image, as a URL or as a data URL."""
    type: Literal['input_image']
    """Always `input_image`."""
    image_url: str
    """URL of the image: `https://…` or `data:image/png;base64,…`."""
    detail: NotRequired[ImageDetail]
    """Level of detail of the image. Accepted but ignored. Default: `auto`."""


class ResponseInputItemList(TypedDict):
    """The input items of a response."""
    object: Literal['list']
    """Always `list`."""
    data: list[JsonObject]
    """Input items in the requested order."""
    first_id: str | None
    """ID of the first item. Null if the page is empty."""
    last_id: str | None
    """ID of the last item. Null if the page is empty."""
    has_more: bool
    """Whether there are more items after this page."""


class ResponseInputItemReference(TypedDict):
    """A reference to an output item of an earlier response. Runward replaces it by the item."""
    type: Literal['item_reference']
    """Always `item_reference`."""
    id: str
    """ID of the output item."""


class ResponseInputMcpApprovalRequest(TypedDict):
    """An approval request of an earlier response. Runward ignores it, because the item of the
    call contains the outcome."""
    id: NotRequired[str | None]
    """ID of the item in an earlier response. Optional and ignored."""
    status: NotRequired[str | None]
    """Status of the item in an earlier response. Optional and ignored."""
    type: Literal['mcp_approval_request']
    """Always `mcp_approval_request`."""
    server_label: str
    """Label of the server in the earlier response."""
    name: str
    """Name of the registered tool."""
    arguments: str
    """Arguments of the call: a JSON object as text."""


class ResponseInputMcpApprovalResponse(TypedDict):
    """A decision about a call that needs approval. The API key needs the scope
    `approvals:decide`. Without `previous_response_id`, the request continues the run of the
    approval."""
    id: NotRequired[str | None]
    """ID of the item in an earlier response. Optional and ignored."""
    status: NotRequired[str | None]
    """Status of the item in an earlier response. Optional and ignored."""
    type: Literal['mcp_approval_response']
    """Always `mcp_approval_response`."""
    approval_request_id: str
    """ID of the `mcp_approval_request` item. It is the same as the ID of the approval (`apr_…`)."""
    approve: bool
    """Whether the approver approves the call."""
    reason: NotRequired[str | None]
    """Reason for a rejection. The model reads it. Null: Runward uses a built-in message."""


class ResponseInputMcpCall(TypedDict):
    """A call of a registered tool that Runward ran in an earlier response."""
    id: NotRequired[str | None]
    """ID of the item in an earlier response. Optional and ignored."""
    status: NotRequired[str | None]
    """Status of the item in an earlier response. Optional and ignored."""
    type: Literal['mcp_call']
    """Always `mcp_call`."""
    server_label: str
    """Label of the server in the earlier response."""
    name: str
    """Name of the registered tool."""
    arguments: str
    """Arguments of the call: a JSON object as text."""
    output: NotRequired[str | None]
    """Result of the call. Null if the call failed."""
    error: NotRequired[JsonValue]
    """Error of the call. Null if the call succeeded."""
    approval_request_id: NotRequired[str | None]
    """ID of the approval request in the earlier response. Null if the call needed no approval."""


class ResponseInputMessage(TypedDict):
    """A message of the conversation."""
    id: NotRequired[str | None]
    """ID of the item in an earlier response. Optional and ignored."""
    status: NotRequired[str | None]
    """Status of the item in an earlier response. Optional and ignored."""
    type: Literal['message']
    """Always `message`. Optional."""
    role: ItemRole
    """Role of the author of the message. `developer` has the same meaning as `system`."""
    content: str | list[ResponseInputPart]
    """Content of the message: a string, or a list of parts."""
    phase: NotRequired[MessagePhase | None]
    """Phase of an assistant message in an earlier response. Accepted but ignored."""


class ResponseInputReasoning(TypedDict):
    """Reasoning of an earlier response. If it has the `encrypted_content` from a response of
    this project, Runward sends the reasoning back to the provider that created it. Otherwise,
    the model does not read it again."""
    id: NotRequired[str | None]
    """ID of the item in an earlier response. Optional and ignored."""
    status: NotRequired[str | None]
    """Status of the item in an earlier response. Optional and ignored."""
    type: Literal['reasoning']
    """Always `reasoning`."""
    summary: NotRequired[list[JsonObject]]
    """Summary of the reasoning in the earlier response. Accepted but ignored."""
    content: NotRequired[list[JsonObject]]
    """Content of the reasoning in the earlier response. Accepted but ignored."""
    encrypted_content: NotRequired[str | None]
    """Encrypted reasoning from the response. Ignored if Runward did not create it for this
    project."""


class ResponseInputRefusal(TypedDict):
    """A refusal by the assistant."""
    type: Literal['refusal']
    """Always `refusal`."""
    refusal: str
    """Text of the refusal."""


class ResponseInputText(TypedDict):
    """A text part of a message or a result."""
    type: ResponseTextPartType
    """Kind of the text part: `output_text` for messages from the assistant, `input_text`
    otherwise."""
    text: str
    """Text of the part."""
    annotations: NotRequired[list[JsonObject]]
    """Annotations of the text in an earlier response. Accepted but ignored."""
    logprobs: NotRequired[list[JsonObject]]
    """Log probabilities of the text in an earlier response. Accepted but ignored."""


class ResponseMcpCallArgumentsDeltaEvent(TypedDict):
    """A piece of a call's arguments."""
    type: Literal['response.mcp_call_arguments.delta']
    """Always `response.mcp_call_arguments.delta`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    delta: str
    """Text to append to the arguments."""


class ResponseMcpCallArgumentsDoneEvent(TypedDict):
    """The arguments of a call are complete."""
    type: Literal['response.mcp_call_arguments.done']
    """Always `response.mcp_call_arguments.done`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    arguments: str
    """Complete arguments of the call: a JSON object as text."""


class ResponseMcpCallCompletedEvent(TypedDict):
    """A tool call has succeeded."""
    type: Literal['response.mcp_call.completed']
    """Always `response.mcp_call.completed`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""


class ResponseMcpCallFailedEvent(TypedDict):
    """A tool call has failed."""
    type: Literal['response.mcp_call.failed']
    """Always `response.mcp_call.failed`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""


class ResponseMcpCallInProgressEvent(TypedDict):
    """A tool call has started."""
    type: Literal['response.mcp_call.in_progress']
    """Always `response.mcp_call.in_progress`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""


class ResponseMcpTool(TypedDict):
    """A set of registered tools. Runward runs them."""
    type: Literal['mcp']
    """Always `mcp`."""
    server_label: Literal['runward']
    """Always `runward`."""
    allowed_tools: list[str] | AllowedTools
    """Names of the registered tools that the model may call."""
    server_url: NotRequired[Literal['runward'] | None]
    """Address of the server, for clients that require one. It must be `runward`."""
    require_approval: NotRequired[Literal['never'] | None]
    """Whether the request requires approvals. Runward accepts only `never`. The setting
    `approval` of each tool determines whether its calls require approval."""


class ResponseNamespaceTool(TypedDict):
    """A group of functions that the client runs. The model calls the function `find` of the
    namespace `crm` as `crm_find`. In the response, the `name` of the call is `find` and its
    `namespace` is `crm`."""
    type: Literal['namespace']
    """Always `namespace`."""
    name: str
    """Name of the namespace."""
    description: NotRequired[str]
    """Description of the namespace. The descriptions that the model reads begin with it.
    Default: an empty string."""
    tools: list[ResponseFunctionTool]
    """Functions of the namespace."""


class ResponseObject(TypedDict):
    """A response in OpenAI's format. A response ends when its run ends or waits for the client.
    If the client submits a result or a decision, the run continues with a new response."""
    id: str
    """ID of the response (`resp_…`). It contains the hexadecimal digits of the run's ID."""
    object: Literal['response']
    """Always `response`."""
    created_at: int
    """When the response was created, as a Unix timestamp in seconds."""
    completed_at: int | None
    """When the response was completed, as a Unix timestamp in seconds. Null unless `status` is
    `completed`."""
    status: ResponseStatus
    """Status of the response. If the run waits for the client, the status is `completed`."""
    model: str
    """Name of the model or the registered agent, as in the request."""
    previous_response_id: str | None
    """ID of the response that this response continues. Null if it continues no response."""
    instructions: str | None
    """Instructions, as in the request. Null if the request has no instructions."""
    tools: list[JsonObject]
    """Functions and registered tools, as in the request."""
    tool_choice: JsonValue
    """Tool choice, as in the request."""
    truncation: Truncation
    """Truncation of long inputs, as in the request."""
    parallel_tool_calls: bool
    """Whether the model may request several tool calls in one turn, as in the request."""
    text: JsonObject
    """Settings of the model's text output, as in the request."""
    temperature: float
    """Sampling temperature, as in the request. 1 if the request sets no temperature."""
    top_p: float
    """Nucleus sampling probability, as in the request. 1 if the request sets no probability."""
    presence_penalty: float
    """Presence penalty, as in the request. 0 if the request sets no penalty."""
    frequency_penalty: float
    """Frequency penalty, as in the request. 0 if the request sets no penalty."""
    top_logprobs: int
    """Number of log probabilities. Always 0."""
    reasoning: JsonObject | None
    """Reasoning settings, as in the request. Null if the request has no reasoning settings."""
    user: str | None
    """Identifier of the end user, as in the request. Null if the request has no identifier."""
    max_output_tokens: int | None
    """Maximum number of output tokens in each turn, as in the request. Null: the provider's
    default."""
    max_tool_calls: int | None
    """Maximum number of tool calls, as in the request. Null: the default of
    `limits.max_tool_calls`."""
    store: bool
    """Whether the response is stored. Always true."""
    background: bool
    """Whether the request that started the run set `background`."""
    service_tier: str
    """Service tier, as in the request. `default` if the request sets no tier."""
    metadata: dict[str, str]
    """Custom metadata of the run."""
    safety_identifier: str | None
    """Identifier of the end user for safety checks, as in the request. Null if the request has
    no identifier."""
    prompt_cache_key: str | None
    """Key for the provider's prompt cache, as in the request. Null if the request has no key."""
    conversation: JsonObject | None
    """Conversation or session of the response, as `{"id": "conv_…"}` or `{"id": "sess_…"}`. Null
    if the response belongs to none."""
    error: JsonObject | None
    """Error of a failed response, with `code` and `message`. Null for other responses."""
    incomplete_details: JsonObject | None
    """Why the response is incomplete: `reason` in OpenAI's format, and Runward's own `code` and
    `message`. Null for other responses."""
    output: list[ResponseOutputItem]
    """Messages, reasoning, and calls of the response, in order."""
    usage: JsonObject | None
    """Number of tokens that the response used. Null until the response has ended."""


class ResponseOutputFunctionCall(TypedDict):
    """A call of a function that the client must run."""
    type: Literal['function_call']
    """Always `function_call`."""
    id: str
    """ID of the output item that the event is about."""
    call_id: str
    """ID of the call. Send it with the result."""
    name: str
    """Name of the function."""
    namespace: NotRequired[str]
    """Namespace of the function. Missing if the function has none."""
    arguments: str
    """Arguments of the call: a JSON object as text."""
    status: ResponseItemStatus
    """Status of the item."""


class ResponseOutputItemAddedEvent(TypedDict):
    """An item begins."""
    type: Literal['response.output_item.added']
    """Always `response.output_item.added`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    item: ResponseOutputItem
    """Current state of the item."""


class ResponseOutputItemDoneEvent(TypedDict):
    """An item is complete."""
    type: Literal['response.output_item.done']
    """Always `response.output_item.done`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    item: ResponseOutputItem
    """Current state of the item."""


class ResponseOutputMcpApprovalRequest(TypedDict):
    """A tool call that needs approval."""
    type: Literal['mcp_approval_request']
    """Always `mcp_approval_request`."""
    id: str
    """ID of the approval. Send it as `approval_request_id`."""
    server_label: str
    """Label of the server. Always `runward`."""
    name: str
    """Name of the tool."""
    arguments: str
    """Arguments of the call: a JSON object as text."""


class ResponseOutputMcpCall(TypedDict):
    """A tool call that Runward or the model's provider ran."""
    type: Literal['mcp_call']
    """Always `mcp_call`."""
    id: str
    """ID of the output item that the event is about."""
    server_label: str
    """Label of the server: `runward`, or the kind of a hosted tool."""
    name: str
    """Name of the tool."""
    arguments: str
    """Arguments of the call: a JSON object as text."""
    approval_request_id: str | None
    """ID of the approval. Null if the call needed no approval."""
    output: str | None
    """Result of the call. Null if the call has not succeeded."""
    error: JsonObject | None
    """Error of the call. Null unless the call has failed."""
    status: ResponseItemStatus
    """Status of the item."""


class ResponseOutputMessage(TypedDict):
    """A message from the model."""
    type: Literal['message']
    """Always `message`."""
    id: str
    """ID of the output item that the event is about."""
    status: ResponseItemStatus
    """Status of the item."""
    role: Literal['assistant']
    """Role of the author of the message."""
    content: list[ResponseOutputPart]
    """Parts of the message: text and refusals."""


class ResponseOutputReasoning(TypedDict):
    """The model's reasoning. Only some providers return reasoning."""
    type: Literal['reasoning']
    """Always `reasoning`."""
    id: str
    """ID of the output item that the event is about."""
    summary: list[ResponseSummaryText]
    """Text parts of the reasoning."""
    encrypted_content: str | None
    """Encrypted reasoning, which a later request can send back. Null if the request does not
    include `reasoning.encrypted_content`, or if neither a message nor a tool call followed
    the reasoning."""


class ResponseOutputRefusal(TypedDict):
    """A refusal by the model."""
    type: Literal['refusal']
    """Always `refusal`."""
    refusal: str
    """The text of the refusal."""


class ResponseOutputText(TypedDict):
    """A text part of a message."""
    type: Literal['output_text']
    """Always `output_text`."""
    text: str
    """Text of the part."""
    annotations: list[JsonObject]
    """Always an empty list."""
    logprobs: list[JsonObject]
    """Always an empty list."""


class ResponseOutputTextDeltaEvent(TypedDict):
    """A piece of a message's text."""
    type: Literal['response.output_text.delta']
    """Always `response.output_text.delta`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    content_index: int
    """Position of the part in the item's `content`, counted from 0."""
    delta: str
    """Text to append to the previous text."""
    logprobs: list[JsonObject]
    """Always an empty list."""


class ResponseOutputTextDoneEvent(TypedDict):
    """A message's text is complete."""
    type: Literal['response.output_text.done']
    """Always `response.output_text.done`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    content_index: int
    """Position of the part in the item's `content`, counted from 0."""
    text: str
    """Complete text of the part."""
    logprobs: list[JsonObject]
    """Always an empty list."""


class ResponseQueuedEvent(TypedDict):
    """The response waits for a worker."""
    type: Literal['response.queued']
    """Always `response.queued`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    response: ResponseObject
    """Current state of the response."""


class ResponseReasoningSummaryPartAddedEvent(TypedDict):
    """A part of the reasoning begins."""
    type: Literal['response.reasoning_summary_part.added']
    """Always `response.reasoning_summary_part.added`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    summary_index: int
    """Position of the part in the item's `summary`, counted from 0."""
    part: ResponseSummaryText
    """Current state of the message part."""


class ResponseReasoningSummaryPartDoneEvent(TypedDict):
    """A part of the reasoning is complete."""
    type: Literal['response.reasoning_summary_part.done']
    """Always `response.reasoning_summary_part.done`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    summary_index: int
    """Position of the part in the item's `summary`, counted from 0."""
    part: ResponseSummaryText
    """Current state of the message part."""


class ResponseReasoningSummaryTextDeltaEvent(TypedDict):
    """A piece of the reasoning."""
    type: Literal['response.reasoning_summary_text.delta']
    """Always `response.reasoning_summary_text.delta`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    summary_index: int
    """Position of the part in the item's `summary`, counted from 0."""
    delta: str
    """Text to append to the previous text."""


class ResponseReasoningSummaryTextDoneEvent(TypedDict):
    """A text of the reasoning is complete."""
    type: Literal['response.reasoning_summary_text.done']
    """Always `response.reasoning_summary_text.done`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    summary_index: int
    """Position of the part in the item's `summary`, counted from 0."""
    text: str
    """Complete text of the part."""


class ResponseRefusalDeltaEvent(TypedDict):
    """A piece of a refusal."""
    type: Literal['response.refusal.delta']
    """Always `response.refusal.delta`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    content_index: int
    """Position of the part in the item's `content`, counted from 0."""
    delta: str
    """Text to append to the previous text."""


class ResponseRefusalDoneEvent(TypedDict):
    """A refusal is complete."""
    type: Literal['response.refusal.done']
    """Always `response.refusal.done`."""
    sequence_number: int
    """Position of the event in the stream. Positions increase but can have gaps."""
    item_id: str
    """ID of the output item that the event is about."""
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    content_index: int
    """Position of the part in the item's `content`, counted from 0."""
    refusal: str
    """Complete text of the part."""


class ResponseSummaryText(TypedDict):
    """A part of the model's reasoning."""
    type: Literal['summary_text']
    """Always `summary_text`."""
    text: str
    """Text of the part."""


class ResponseTextConfig(TypedDict):
    """Settings of the model's text output, such as its format."""
    format: NotRequired[ResponseFormat | None]
    """Format of the output: `{"type": "text"}`, `{"type": "json_schema", …}` or `{"type":
    "json_object"}`. Null: text. A schema is not allowed if `model` is an agent with its own
    output schema."""
    verbosity: NotRequired[Verbosity | None]
    """How detailed the model's answer should be. Sets `model_settings.verbosity`. Null: the
    provider's default."""


class ResponseToolChoice(TypedDict):
    """The tool that the model must call."""
    type: ResponseToolKind
    """Kind of the tool: `function` for a client's function, `mcp` for a registered tool."""
    name: str
    """Name of the tool."""
    server_label: NotRequired[Literal['runward'] | None]
    """`runward` for a registered tool. Null for a function."""


class Retention(TypedDict):
    """How long Runward keeps each class of data of the project."""
    object: Literal['retention']
    """Always `retention`."""
    runs: ClassRetention
    """All content of runs, after the end of the run."""
    events: ClassRetention
    """The event log of runs, after the end of the run."""
    tool_call_content: ClassRetention
    """Arguments and results of tool calls, and reasoning of models, after the end of the run."""
    deliveries: ClassRetention
    """Webhook deliveries, after their creation."""
    audit: ClassRetention
    """Entries of the audit log, after their creation."""


class RetentionPreview(TypedDict):
    """The rows of each class that Runward would remove now. Runs under a legal hold are not
    included."""
    object: Literal['retention_preview']
    """Always `retention_preview`."""
    runs: ClassPreview
    """Runs that would lose their content."""
    events: ClassPreview
    """Events that would be deleted."""
    tool_call_content: ClassPreview
    """Tool calls that would lose their arguments and results."""
    deliveries: ClassPreview
    """Webhook deliveries that would be deleted."""
    audit: ClassPreview
    """Entries of the audit log that would be deleted."""


class Retry(TypedDict):
    """How many times Runward retries a call and how long it waits between attempts. Runward
    randomizes the delays (full jitter). Delays count toward the call's timeout."""
    max_attempts: NotRequired[int]
    """Maximum number of attempts, including the first one."""
    initial_seconds: NotRequired[float]
    """Maximum delay before the second attempt, in seconds. Runward doubles the delay for each
    further attempt."""
    max_seconds: NotRequired[float]
    """Maximum delay between two attempts, in seconds."""
    on: NotRequired[list[int]]
    """HTTP status codes that Runward retries even if the tool is not idempotent."""


class RetryInput(TypedDict):
    """How many times Runward retries a call and how long it waits between attempts. Runward
    randomizes the delays (full jitter). Delays count toward the call's timeout."""
    max_attempts: NotRequired[int]
    """Maximum number of attempts, including the first one. Default: 3."""
    initial_seconds: NotRequired[float]
    """Maximum delay before the second attempt, in seconds. Runward doubles the delay for each
    further attempt. Default: 0.5."""
    max_seconds: NotRequired[float]
    """Maximum delay between two attempts, in seconds. Default: 10."""
    on: NotRequired[list[int]]
    """HTTP status codes that Runward retries even if the tool is not idempotent. Default: an
    empty list."""


class RetryResolution(TypedDict):
    """Record that the call did not take effect, so that Runward sends it again."""
    resolution: Literal['retry']
    """`retry`: the call did not take effect, and Runward sends it again."""


class RootRun(TypedDict):
    """The run that a client started. If a child run requested the call, this is the topmost
    ancestor of that child run."""
    id: str
    """ID of the run."""
    agent: str | None
    """Name of the agent that the run was started with. Null if the run uses no registered agent."""
    created_by: Actor | None
    """API key that started the run."""
    created_at: str
    """When the run was accepted."""
    input: str | None
    """Text of the last user message of the run, up to 2,000 characters. Null if the run has no
    user message."""


class Run(TypedDict):
    """One execution of an agent or a model, from its input to a final status."""
    id: str
    """ID of the run. It stays the same while the run pauses and resumes."""
    object: Literal['run']
    """Always `run`."""
    status: RunStatus
    """Status of the run. `completed`, `failed`, `cancelled`, `incomplete`, and `expired` are
    final. `requires_action` means that the run continues only after a person or a client
    performs one of its `required_actions`. A run that waits only for callbacks has the status
    `in_progress`."""
    agent: str | None
    """Name of the agent that currently executes the run. Null if the run uses no registered
    agent."""
    model: str | list[str] | None
    """Model of the run, or a list of models in order of preference. Null for a workflow, because
    workflows have no model."""
    session_id: str | None
    """ID of the session that the run belongs to. Null if the run belongs to no session."""
    continued_from: str | None
    """ID of the run that this run continues. Null for other runs."""
    schedule_id: str | None
    """ID of the schedule that started the run. Null for other runs."""
    parent_run_id: str | None
    """ID of the parent run. Set only for child runs."""
    created_by: Actor | None
    """API key that started the run. For a child run, the API key that started its topmost
    ancestor."""
    turn: int
    """Number of turns that the run has had so far."""
    usage: Usage
    """Number of tokens and cost of the run so far, including child runs."""
    output: JsonValue
    """Final output: the text of the model, or the result of the tool that ended the run. Null
    until the run has an output."""
    output_parsed: JsonValue
    """Final output parsed as JSON. Null if the run has no `output_schema` or no output yet."""
    error: RunError | None
    """The error that the run failed with. Set only for the status `failed`."""
    incomplete_details: IncompleteDetails | None
    """The limit that ended the run. Null if no limit ended it."""
    required_actions: list[RequiredAction]
    """Actions that a person or a client must perform for this run or its child runs at any
    depth. The list may contain actions even if `status` is not `requires_action`."""
    waiting_for: list[CallbackWait]
    """Tool calls that wait for a callback of their tool. The list covers this run and its child
    runs at any depth."""
    last_sequence: int
    """Sequence number of the newest event of the run."""
    priority: int
    """Priority in the queue, from -100 to 100. Runs with a higher priority start first."""
    start_at: str | None
    """Time before which the run does not start. Null: the run can start at once."""
    created_at: str
    """When the run was accepted."""
    started_at: str | None
    """When a worker first claimed the run. Null until then."""
    ended_at: str | None
    """When the run ended. Null while it is open."""
    erased_at: str | None
    """When the content of the run was erased. Null if the content has not been erased."""
    context: JsonObject | None
    """Context that the client set when it started the run. Rules and tools can read it. The
    model never sees it."""
    metadata: JsonObject
    """Custom metadata that the client set when it started the run."""
    config: RunConfig | None
    """Input and configuration that the run was started with. Null if the request does not
    contain `include=config`."""


class RunCancelledEvent(TypedDict):
    """The run was cancelled. This is its last event."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['run.cancelled']
    """Always `run.cancelled`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: RunEndedData
    """Data of the event. Its fields depend on the event's type."""


class RunCompletedEvent(TypedDict):
    """The run completed. This is its last event, and it contains the output."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['run.completed']
    """Always `run.completed`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: RunEndedData
    """Data of the event. Its fields depend on the event's type."""


class RunConfig(TypedDict):
    """The input and the configuration that a run was started with."""
    input: list[Item]
    """Items that the run was started with: messages, and earlier tool calls with their results.
    For a continued run, only the items that the client added."""
    instructions: str
    """Instructions that the model reads before the input."""
    tools: list[str | AgentTool]
    """Tools that the run may call: names of registered tools, and tools that only this run or
    its agent has."""
    limits: Limits
    """Limits of the run, including default values."""


class RunCreatedData(TypedDict):
    """Data of a `run.created` event."""
    agent: str | None
    """Name of the agent that the run was started with. Null if the run uses no registered agent."""
    model: str | list[str] | None
    """Model of the run, or a list of models in order of preference. Null for a workflow, because
    workflows have no model."""
    tools: list[str]
    """Names of the tools that the run may call."""
    parent_call_id: NotRequired[str]
    """ID of the parent's tool call that started this run. Set only for child runs."""
    continued_from: NotRequired[str]
    """ID of the run that this run continues. Set only for continued runs."""


class RunCreatedEvent(TypedDict):
    """The run was accepted. The data names its agent, model, and tools."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['run.created']
    """Always `run.created`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: RunCreatedData
    """Data of the event. Its fields depend on the event's type."""


class RunEndedData(TypedDict):
    """Data of the last event of a run, such as `run.completed`."""
    output: NotRequired[JsonValue]
    """Final output of the run. A longer output is truncated to 32 KiB."""
    truncated: NotRequired[Literal[True]]
    """True if the output in this event is truncated. `GET /v1/runs/{run_id}` returns the
    complete output."""
    error: NotRequired[RunError]
    """The error that the run failed with. Set only for failed runs."""
    incomplete_details: NotRequired[IncompleteDetails]
    """The limit that ended the run. Set only if a limit ended it."""


class RunError(TypedDict):
    """The error that a run failed with."""
    code: RunErrorCode
    """Stable error code, for programs."""
    message: str
    """Description of the error, for people."""


class RunExpiredEvent(TypedDict):
    """The run's deadline passed while the run was waiting. This is its last event."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['run.expired']
    """Always `run.expired`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: RunEndedData
    """Data of the event. Its fields depend on the event's type."""


class RunFailedEvent(TypedDict):
    """The run failed. This is its last event, and `error` contains a code and a message."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['run.failed']
    """Always `run.failed`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: RunEndedData
    """Data of the event. Its fields depend on the event's type."""


class RunHostedCallItem(TypedDict):
    """A hosted tool call, which the model's provider ran, together with its result."""
    id: str
    """ID of the item. Use it as `after` to get the items that follow it."""
    agent: str | None
    """Name of the agent that the item belongs to. Null if the run uses no registered agent."""
    turn: int
    """Number of the turn that the item belongs to. 0 for items before the first turn."""
    type: Literal['hosted_call']
    """Always `hosted_call`."""
    call_id: str
    """ID of the hosted tool call, as the provider generated it."""
    name: str
    """Name of the hosted tool."""
    kind: str
    """Kind of the hosted tool. If Runward does not know the kind, this is the provider's name
    for it."""
    provider: str
    """Name of the provider that ran the tool."""
    arguments: JsonObject
    """Arguments of the call."""
    output: JsonValue
    """Output of the call: any JSON value."""
    is_error: bool
    """Whether the call failed."""
    data: JsonObject
    """The call in the provider's format, unchanged."""


class RunIncompleteEvent(TypedDict):
    """The run reached a limit. This is its last event, and `incomplete_details` names the limit."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['run.incomplete']
    """Always `run.incomplete`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: RunEndedData
    """Data of the event. Its fields depend on the event's type."""


class RunItemList(TypedDict):
    """A page of a run's conversation: messages, tool calls, tool results, reasoning, and hosted
    tool calls. `native` contains data that only one provider understands."""
    object: Literal['list']
    """Always `list`."""
    data: list[RunItem]
    """Items in the requested order. Tool calls are followed by their results."""
    first_id: str | None
    """ID of the first item. Null if the page is empty."""
    last_id: str | None
    """ID of the last item. Null if the page is empty."""
    has_more: bool
    """Whether there are more items after this page."""


class RunList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[Run]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class RunMessageItem(TypedDict):
    """A message from a user, a model, or the system."""
    id: str
    """ID of the item. Use it as `after` to get the items that follow it."""
    agent: str | None
    """Name of the agent that the item belongs to. Null if the run uses no registered agent."""
    turn: int
    """Number of the turn that the item belongs to. 0 for items before the first turn."""
    type: Literal['message']
    """Always `message`."""
    role: MessageRole
    """Role of the author of the message."""
    content: str | list[ItemPart]
    """Content of the message: a string, or a list of text, image, and file parts."""
    refusal: NotRequired[Literal[True]]
    """True if the message is a refusal by the model."""
    native: NotRequired[ProviderData]
    """Data of the message in the provider's format. Missing if the provider returned no such
    data."""


class RunReasoningItem(TypedDict):
    """Reasoning of a model, in its provider's format."""
    id: str
    """ID of the item. Use it as `after` to get the items that follow it."""
    agent: str | None
    """Name of the agent that the item belongs to. Null if the run uses no registered agent."""
    turn: int
    """Number of the turn that the item belongs to. 0 for items before the first turn."""
    type: Literal['reasoning']
    """Always `reasoning`."""
    provider: str
    """Name of the provider that can read the reasoning."""
    data: JsonObject
    """Reasoning in the provider's format, unchanged."""


class RunResumedEvent(TypedDict):
    """A worker claimed the run again, after the run had waited or its previous worker was lost."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['run.resumed']
    """Always `run.resumed`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: EmptyData
    """Data of the event. Its fields depend on the event's type."""


class RunStartedEvent(TypedDict):
    """A worker claimed the run for the first time."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['run.started']
    """Always `run.started`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: EmptyData
    """Data of the event. Its fields depend on the event's type."""


class RunToolCallItem(TypedDict):
    """A tool call that the model requested."""
    id: str
    """ID of the item. Use it as `after` to get the items that follow it."""
    agent: str | None
    """Name of the agent that the item belongs to. Null if the run uses no registered agent."""
    turn: int
    """Number of the turn that the item belongs to. 0 for items before the first turn."""
    type: Literal['tool_call']
    """Always `tool_call`."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    name: str
    """Name of the tool."""
    arguments: JsonObject
    """Arguments of the call. Empty if the model's text is not a JSON object."""
    arguments_text: NotRequired[str]
    """Text that the model wrote as arguments. Set only if the text is not a JSON object."""
    native: NotRequired[ProviderData]
    """Data of the call in the provider's format. Missing if the provider returned no such data."""


class RunToolResultItem(TypedDict):
    """The result of a tool call, as the model reads it."""
    id: str
    """ID of the item. Use it as `after` to get the items that follow it."""
    agent: str | None
    """Name of the agent that the item belongs to. Null if the run uses no registered agent."""
    turn: int
    """Number of the turn that the item belongs to. 0 for items before the first turn."""
    type: Literal['tool_result']
    """Always `tool_result`."""
    call_id: str
    """ID of the tool call that the result belongs to."""
    output: JsonValue
    """Output of the call: any JSON value."""
    is_error: bool
    """Whether the model reads the output as an error."""
    content: NotRequired[list[ItemPart]]
    """Parts of the result: text, images, and files. Set only if the tool returned parts."""


class RunWaitingCall(TypedDict):
    """A tool call that the run waits for."""
    type: WaitingKind
    """What the call waits for. `approval`: a decision. `callback`: a callback from the tool.
    `tool_result`: a result or input from the client. `resolve`: a person who records the
    outcome. `child_run`: a child run."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool that the call is for."""
    approval_id: NotRequired[str]
    """ID of the approval. Set only for the type `approval`."""
    run_id: NotRequired[str]
    """ID of the child run. Set only for the type `child_run`."""


class RunWaitingData(TypedDict):
    """Data of a `run.waiting` event."""
    waiting_for: list[RunWaitingCall]
    """Tool calls that the run waits for."""


class RunWaitingEvent(TypedDict):
    """The run cannot continue until a person or a client acts. `waiting_for` lists the tool
    calls that wait. If a run waits only for callbacks, Runward records no such event."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['run.waiting']
    """Always `run.waiting`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: RunWaitingData
    """Data of the event. Its fields depend on the event's type."""


class RunWebhook(TypedDict):
    """The webhook of a single run. Runward signs its notifications with the project's signing
    secret."""
    url: str
    """URL that receives the notifications. Runward checks its address before each attempt."""
    events: NotRequired[list[NotificationPattern]]
    """Types of the notifications. `run.*` selects all types that begin with `run.`, and `*`
    selects all types. Default: ["*"]."""
    include: NotRequired[list[Literal['output']]]
    """Content that the notifications contain. `output`: the output or the error message of the
    run. Default: an empty list."""


class Schedule(TypedDict):
    """A schedule, which starts runs at certain times."""
    id: str
    """ID of the schedule."""
    object: Literal['schedule']
    """Always `schedule`."""
    name: str
    """Name of the schedule, for people."""
    cron: str | None
    """Cron expression. Null if the schedule starts one run."""
    time_zone: str | None
    """Time zone of `cron`. Null without `cron`."""
    at: str | None
    """Time of the only run. Null with `cron`."""
    after_seconds: int | None
    """The `after_seconds` from which Runward computed `at`. Null if there was none."""
    run: JsonObject
    """Request of each run. Values of the headers of tools are shown as `…`, and references to
    secrets are shown unchanged."""
    overlap: ScheduleOverlap
    """What happens at a slot if a run of an earlier slot has not ended."""
    misfires: ScheduleMisfires
    """What happens with slots for which no worker was available."""
    enabled: bool
    """Whether the schedule starts runs."""
    next_at: str | None
    """Time of the next slot. Null if the schedule is disabled or has no further slot."""
    last_at: str | None
    """Time of the last slot that Runward processed. Null if there was none."""
    last_run_id: str | None
    """ID of the last run. Null if there was none."""
    last_skip_reason: SlotSkipReason | None
    """Why the last slot started no run. `overlap`: a run of an earlier slot had not ended.
    `queue_full`: 100 runs of the schedule were waiting. `missed`: no worker was available.
    Null if the last slot was not skipped."""
    last_error: SlotError | None
    """Why the run of the last slot could not start. Null if there was no error."""
    created_by: Actor | None
    """API key that created the schedule. The runs have the same `created_by`."""
    created_at: str
    """When the schedule was created."""
    updated_at: str
    """When the schedule was last updated."""


class ScheduleList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[Schedule]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class ScheduleSlot(TypedDict):
    """A slot of a schedule that Runward has processed."""
    id: str
    """ID of the slot."""
    object: Literal['schedule_slot']
    """Always `schedule_slot`."""
    at: str
    """Time of the slot."""
    status: SlotStatus
    """Result of the slot. `started`: it started a run. `skipped`: it started no run because of
    `overlap` or `misfires`. `failed`: its run could not start."""
    run_id: str | None
    """ID of the run. Null if the slot started no run."""
    skip_reason: SlotSkipReason | None
    """Why Runward skipped the slot. If several slots in a row were missed, the list contains
    only the first one. Null if the slot was not skipped."""
    error: SlotError | None
    """Why the run could not start. Null if there was no error."""
    created_at: str
    """When Runward processed the slot. Runward deletes slots 30 days later."""


class ScheduleSlotList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[ScheduleSlot]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class Secret(TypedDict):
    """A stored secret, without its value."""
    object: Literal['secret']
    """Always `secret`."""
    name: str
    """Name of the secret. Unique in the project. Other resources refer to the secret by this
    name."""
    version: int
    """Version of the value. It starts at 1 and grows by 1 with each new value."""
    created_at: str
    """When the secret was created."""
    updated_at: str
    """When the current value of the secret was set."""


class SecretList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[Secret]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class SecretReference(TypedDict):
    """A reference to a secret of the project."""
    secret: str
    """Name of the secret, as created with `PUT /v1/secrets/{name}`."""
    prefix: NotRequired[str]
    """String to put before the secret's value, such as `Bearer ` with a trailing space."""


class SecretReferenceInput(TypedDict):
    """A reference to a secret of the project."""
    secret: str
    """Name of the secret, as created with `PUT /v1/secrets/{name}`."""
    prefix: NotRequired[str]
    """String to put before the secret's value, such as `Bearer ` with a trailing space. Default:
    an empty string."""


class SendInput(TypedDict):
    """A message for a run that has not ended."""
    input: Input
    """Input for the model: a string, or a list of messages. The model reads it in its next turn,
    after all open tool calls have results."""


class Session(TypedDict):
    """A conversation shared by several runs. Only one of its runs executes at a time."""
    id: str
    """ID of the session. Runs refer to it as `session_id`."""
    object: Literal['session']
    """Always `session`."""
    name: str | None
    """Name of the session, for people. Null if the session has no name."""
    metadata: JsonObject
    """Custom metadata of the session."""
    state: JsonObject
    """Current state that the session's runs and their tools share."""
    on_conflict: ConflictMode
    """What happens to a run that is started while another run of the session is open."""
    forked_from: str | None
    """ID of the session that this session was forked from. Null if it is not a fork."""
    created_at: str
    """When the session was created."""
    updated_at: str
    """When the session was last changed. The end of a run changes its session."""


class SessionHostedCallItem(TypedDict):
    """A hosted tool call, which the model's provider ran, together with its result."""
    id: str
    """ID of the item. Use it as `after` to get the items that follow it."""
    run_id: str | None
    """ID of the run that the item belongs to. Null if a client added the item at
    `/v1/conversations`."""
    type: Literal['hosted_call']
    """Always `hosted_call`."""
    call_id: str
    """ID of the hosted tool call, as the provider generated it."""
    name: str
    """Name of the hosted tool."""
    kind: str
    """Kind of the hosted tool. If Runward does not know the kind, this is the provider's name
    for it."""
    provider: str
    """Name of the provider that ran the tool."""
    arguments: JsonObject
    """Arguments of the call."""
    output: JsonValue
    """Output of the call: any JSON value."""
    is_error: bool
    """Whether the call failed."""
    data: JsonObject
    """The call in the provider's format, unchanged."""


class SessionItemList(TypedDict):
    """A page of a session's conversation: the items of the runs that have ended. Each item has
    its own `id` and the `run_id` of its run. `run_id` is null if a client added the item at
    `/v1/conversations`."""
    object: Literal['list']
    """Always `list`."""
    data: list[SessionItem]
    """Items in the requested order."""
    first_id: str | None
    """ID of the first item. Null if the page is empty."""
    last_id: str | None
    """ID of the last item. Null if the page is empty."""
    has_more: bool
    """Whether there are more items after this page."""


class SessionList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[Session]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class SessionMessageItem(TypedDict):
    """A message from a user, a model, or the system."""
    id: str
    """ID of the item. Use it as `after` to get the items that follow it."""
    run_id: str | None
    """ID of the run that the item belongs to. Null if a client added the item at
    `/v1/conversations`."""
    type: Literal['message']
    """Always `message`."""
    role: MessageRole
    """Role of the author of the message."""
    content: str | list[ItemPart]
    """Content of the message: a string, or a list of text, image, and file parts."""
    refusal: NotRequired[Literal[True]]
    """True if the message is a refusal by the model."""
    native: NotRequired[ProviderData]
    """Data of the message in the provider's format. Missing if the provider returned no such
    data."""


class SessionReasoningItem(TypedDict):
    """Reasoning of a model, in its provider's format."""
    id: str
    """ID of the item. Use it as `after` to get the items that follow it."""
    run_id: str | None
    """ID of the run that the item belongs to. Null if a client added the item at
    `/v1/conversations`."""
    type: Literal['reasoning']
    """Always `reasoning`."""
    provider: str
    """Name of the provider that can read the reasoning."""
    data: JsonObject
    """Reasoning in the provider's format, unchanged."""


class SessionToolCallItem(TypedDict):
    """A tool call that the model requested."""
    id: str
    """ID of the item. Use it as `after` to get the items that follow it."""
    run_id: str | None
    """ID of the run that the item belongs to. Null if a client added the item at
    `/v1/conversations`."""
    type: Literal['tool_call']
    """Always `tool_call`."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    name: str
    """Name of the tool."""
    arguments: JsonObject
    """Arguments of the call. Empty if the model's text is not a JSON object."""
    arguments_text: NotRequired[str]
    """Text that the model wrote as arguments. Set only if the text is not a JSON object."""
    native: NotRequired[ProviderData]
    """Data of the call in the provider's format. Missing if the provider returned no such data."""


class SessionToolResultItem(TypedDict):
    """The result of a tool call, as the model reads it."""
    id: str
    """ID of the item. Use it as `after` to get the items that follow it."""
    run_id: str | None
    """ID of the run that the item belongs to. Null if a client added the item at
    `/v1/conversations`."""
    type: Literal['tool_result']
    """Always `tool_result`."""
    call_id: str
    """ID of the tool call that the result belongs to."""
    output: JsonValue
    """Output of the call: any JSON value."""
    is_error: bool
    """Whether the model reads the output as an error."""
    content: NotRequired[list[ItemPart]]
    """Parts of the result: text, images, and files. Set only if the tool returned parts."""


class SigningSecret(TypedDict):
    """The project's new signing secret for guardrails, hooks and inline tools. The previous
    secret stays valid for 24 hours."""
    secret: str
    """The new signing secret (`whsec_…`). Runward returns it only once."""


class SkippedTool(TypedDict):
    """A tool of an MCP server that cannot become a tool of the project."""
    tool: str
    """Name of the tool on the MCP server."""
    reason: str
    """Reason why the tool cannot be used."""


class SlotError(TypedDict):
    """Why the run of a slot could not start."""
    code: str
    """Stable error code, for programs. It is the code that `POST /v1/runs` would return."""
    message: str
    """Description of the error, for people."""
    errors: list[JsonObject]
    """The invalid values of the request, with `path` and `message`. A path begins with `run`."""


class StartMcpLogin(TypedDict):
    """Options for a login to an MCP server."""
    scope: NotRequired[str | None]
    """Scopes to request in addition to the scopes of the registration and of the last login,
    separated by spaces. Null: no additional scopes."""
    return_to_console: NotRequired[bool]
    """Whether the browser shows the MCP server in the console after the login. By default, it
    shows a page with the result. Default: false."""


class StartRun(TypedDict):
    """A run to start: either with a registered `agent`, or with a `model` and its configuration."""
    input: Input
    """Input of the run: a string, or a chat history in the format of OpenAI's Chat Completions
    API. Runward does not run the tool calls of a history."""
    agent: NotRequired[str | None]
    """Name of a registered agent. If `agent` is set, the request must not set fields that
    configure an agent, such as `model` or `tools`. Null: the request itself contains the
    configuration."""
    model: NotRequired[str | list[str] | None]
    """Model as `provider:model`, such as `openai:gpt-5.2` or `offline:rules`. If this is a list,
    Runward uses the next model when a model fails."""
    instructions: NotRequired[str]
    """Instructions that the model reads before the input. Default: an empty string."""
    kind: NotRequired[AgentKind]
    """Kind of the agent. `llm` calls a model. The workflows `sequential`, `parallel`, and `loop`
    run the agents in `agents` and have no model. Default: `llm`."""
    tools: NotRequired[list[ToolEntry]]
    """Tools that the model may call: names of registered tools, and definitions of tools that
    only this configuration has. A name that ends with `*`, such as `crm_*`, selects all
    registered tools whose names begin with the part before it when a run starts. If there are
    more than 64 tools, Runward gives the model a tool that searches them. Default: an empty
    list."""
    handoffs: NotRequired[list[str]]
    """Names of agents that may take over the run. For each of them, Runward gives the model a
    tool `transfer_to_NAME`. Default: an empty list."""
    agents: NotRequired[list[str]]
    """Names of the agents that a workflow runs, in order. Set only for the kinds `sequential`,
    `parallel`, and `loop`. Default: an empty list."""
    max_iterations: NotRequired[int]
    """Maximum number of times that a workflow of kind `loop` runs its agents. Default: 10."""
    tool_choice: NotRequired[ToolChoiceInput]
    """Whether the model may (`auto`), must not (`none`), or must (`required`) call a tool. An
    object names the tool that the model must call: `{"name": …}`, or one of the two formats
    of OpenAI's APIs. Responses contain `{"name": …}`. Default: `auto`."""
    reset_tool_choice: NotRequired[bool]
    """Whether Runward changes `tool_choice` to `auto` after the first tool call, so that the
    model can finish. Default: true."""
    parallel_tool_calls: NotRequired[bool]
    """Whether the model may request several tool calls in one turn. Default: true."""
    model_settings: NotRequired[dict[str, JsonValue]]
    """Settings of the model request, such as `temperature`, `max_output_tokens`, or `reasoning`."""
    output_schema: NotRequired[JsonObject | None]
    """JSON Schema of the final output. The run returns the parsed output in `output_parsed`.
    Null: the output is free text."""
    output_retries: NotRequired[int]
    """Maximum number of times that the model may correct an output that does not match
    `output_schema`. If no correction matches, the run ends as `incomplete`. Default: 1."""
    tool_use_behavior: NotRequired[ToolUseMode | StopAtToolsInput]
    """What happens after tool calls. `run_llm_again`: the model reads the results.
    `stop_on_first_tool`: the first successful result becomes the run's output. An object: the
    first successful result of a tool in `stop_at` becomes the run's output. Default:
    `run_llm_again`."""
    on_unknown_tool: NotRequired[FailureMode]
    """What happens if the model calls a tool that does not exist. `return_error`: the model
    reads an error message. `fail_run`: the run fails. Default: `return_error`."""
    on_max_turns: NotRequired[MaxTurnsMode | MaxTurnsOutputInput]
    """What happens when the run reaches `limits.max_turns`. `incomplete`: the run ends as
    `incomplete`. `summarise`: the model writes a last answer without tools. `fail`: the run
    fails. An object: the run completes with its `output`. Default: `incomplete`."""
    limits: NotRequired[LimitsInput]
    """Limits of the run, such as its maximum number of turns."""
    hooks: NotRequired[list[HookInput]]
    """Hooks that Runward calls before and after each model request and each tool call. Default:
    an empty list."""
    guardrails: NotRequired[list[GuardrailInput]]
    """Guardrails that check the run's input, its tool calls, and its final output. Default: an
    empty list."""
    history: NotRequired[HistoryLimitsInput]
    """Limits on how much of the session's earlier conversation the model sees. By default, the
    model sees all of it."""
    session_id: NotRequired[str | None]
    """ID of the session that the run belongs to. The model sees the session's earlier
    conversation. Null: the run belongs to no session."""
    on_conflict: NotRequired[ConflictMode | None]
    """What happens if another run of the session is open. Null: the session's `on_conflict`
    applies."""
    context: NotRequired[JsonObject | None]
    """Context for rules and tools. The model never sees it. Null: no context."""
    metadata: NotRequired[dict[str, JsonValue]]
    """Custom metadata of the run: up to 64 keys and 16 KiB as JSON."""
    priority: NotRequired[int]
    """Priority in the queue. Runs with a higher priority start first within the project. It does
    not affect the runs of other projects. Child runs have the priority of their parent run.
    Default: 0."""
    start_at: NotRequired[str | None]
    """Time before which the run does not start, at most one year ahead. Until then, the run is
    `queued`. The deadline of the run counts from this time. Null: the run starts as soon as
    possible."""
    webhook: NotRequired[RunWebhook | None]
    """Webhook for notifications of this run, including the approvals of its child runs. Null:
    only the project's webhook endpoints get notifications."""


class StateUpdatedData(TypedDict):
    """Data of a `state.updated` event."""
    call_id: str
    """ID of the tool call that changed the shared state."""
    changes: JsonObject | None
    """Changed keys of the shared state with their new values. A value of null means that the key
    was removed. Null if the changes are larger than 32 KiB."""
    changes_bytes: NotRequired[int]
    """Size of `changes` in bytes. Set only if the changes are too large for the event."""
    truncated: NotRequired[Literal[True]]
    """True if the changes are too large for the event. `GET /v1/sessions/{session_id}` returns
    the state of a session in full."""


class StateUpdatedEvent(TypedDict):
    """A call changed the shared state. A value of null means that the call removed the key."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['state.updated']
    """Always `state.updated`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: StateUpdatedData
    """Data of the event. Its fields depend on the event's type."""


class StopAtTools(TypedDict):
    """Tools whose first successful result ends the run."""
    stop_at: list[str]
    """Names of tools. The first successful result of any of these tools ends the run and becomes
    its output."""


class StopAtToolsInput(TypedDict):
    """Tools whose first successful result ends the run."""
    stop_at: list[str]
    """Names of tools. The first successful result of any of these tools ends the run and becomes
    its output."""


class StreamOptions(TypedDict):
    """Options of the event stream."""
    include_obfuscation: NotRequired[Literal[False]]
    """Whether events have random padding. Runward supports only false."""


class SubmitToolResult(TypedDict):
    """The result of a tool that the client runs, or the input that a tool requests. Set either
    `output` or `error`."""
    output: NotRequired[JsonValue]
    """Output of the call: any JSON value, including null. The model reads text unchanged and
    other values as JSON."""
    error: NotRequired[str | None]
    """Error message that the model reads."""


class TestTool(TypedDict):
    """A test call of a tool, outside of any run."""
    arguments: JsonObject
    """Arguments of the call. They must match the tool's schema."""
    context: NotRequired[JsonObject | None]
    """Context of the test call, which replaces the `context` of a run. Null: no context."""


class TextDeltaData(TypedDict):
    """Data of an event that contains a piece of streamed text."""
    turn: int
    """Number of the current turn, counted from 1 in each run."""
    agent: str | None
    """Name of the agent that executes the turn. Null if the run uses no registered agent."""
    text: str
    """Text of this piece."""
    offset: int
    """Number of characters of the same text that came before this piece."""


class Tool(TypedDict):
    """A registered tool. Runward never shows the values of its headers."""
    name: str
    """Name of the tool that models use to call it. Unique in the project."""
    description: str
    """Description of the tool for the model: what the tool does and when to use it."""
    parameters: JsonObject
    """JSON Schema of the arguments. Its type must be `object`. If the arguments of a call do not
    match the schema, Runward does not send the call."""
    output_schema: JsonObject | None
    """JSON Schema of the result. If a result does not match, the model reads an error. Null:
    results are not validated."""
    type: ToolType
    """How Runward executes the tool. `webhook`: a signed POST request to `url`. `agent`: a child
    run. `client`: the client runs the tool and submits the result. `hosted`: the model's
    provider runs the tool. `plugin`: a function that is installed with the service. `mcp`: a
    tool of a registered MCP server."""
    url: str | None
    """URL of a webhook tool, or of the MCP server of a tool of type `mcp`. Null for all other
    types."""
    agent: str | None
    """Name of the agent that executes the child run. Set only for tools of type `agent`."""
    output: ChildOutput | ChildToolOutput
    """Which part of the child run becomes the result of a tool of type `agent`. `final`: the
    final output. `json`: the final output parsed as JSON. An object: the last successful
    output of the named tool."""
    response: ToolResponseMode
    """How Runward reads the response of a webhook tool. `output`: the response is the output of
    the call. `envelope`: requests contain the shared `state`, and the response is an object
    with `output`, `state`, `transfer_to`, `escalate`, and `metadata`, which are all optional."""
    headers: dict[str, str | SecretReference]
    """HTTP headers that Runward sends with every call. Values are shown as `…`, and references
    to secrets are shown unchanged."""
    strict: bool
    """Whether the model must follow the schema exactly. If true, all properties are required,
    and additional properties are not allowed. Optional properties become nullable."""
    timeout_seconds: float | None
    """Timeout of one call in seconds, including all its attempts. Null: the run's
    `limits.tool_timeout_seconds` or, if that is null, the default of the deployment. For
    tools of type `client`, null means no timeout."""
    on_timeout: FailureMode | FailureMessage
    """What happens after a timeout. `return_error`: the model reads an error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object."""
    on_error: FailureMode | FailureMessage | FailureFunction
    """What happens after an error. `return_error`: the model reads the error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. A plugin's tool can
    also use a function of the plugin."""
    idempotent: bool
    """Whether the tool may safely receive the same call more than once. If true, Runward can
    send a call again when its outcome is unknown."""
    on_unknown: UnknownOutcomeMode
    """What happens if Runward does not know whether a call took effect. `return_error`: the
    model reads an error. `ask`: a person must record the outcome. `fail_run`: the run fails."""
    retry: Retry
    """How many times Runward retries a call and how long it waits between attempts."""
    approval: ApprovalMode | CelRule | CallableRule
    """Whether a person must approve each call of the tool: `never`, `always`, or a CEL rule that
    uses `args`, `context`, `run`, and `tool`. A plugin's tool can also use a function of the
    plugin."""
    approval_expires_seconds: float
    """Number of seconds until an approval expires. When it expires, the model reads that nobody
    decided. Default: 7 days. Maximum: 365 days."""
    reject_message: str | None
    """Message that the model reads if an approver rejects a call without a message. Null:
    Runward uses a built-in message."""
    enabled: bool | CelRule | CallableRule
    """Whether models see the tool: true, false, or a CEL rule that Runward evaluates in every
    turn. A plugin's tool can also use a function of the plugin."""
    defer: bool
    """Whether models see the tool only after they have found it with `search_tools`. If an agent
    has such a tool, Runward gives the model `search_tools`."""
    guardrails: list[Guardrail]
    """Guardrails that check the calls and results of this tool. Runward signs their webhook
    requests with the tool's secret."""
    concurrency: Concurrency
    """How many calls of the tool may run at the same time within one run."""
    max_output_bytes: int
    """Maximum size in bytes of a result that the model reads. If a result is longer, Runward
    stores it in full, and the model reads a truncated version."""
    metadata: dict[str, JsonValue]
    """Custom metadata of the tool. CEL rules can read it as `tool.metadata`."""
    code: str | None
    """Digest of a plugin tool's source code, or of the command of an MCP server. A new digest
    creates a new version of the tool. Null for other tools."""
    mcp: McpToolSource | None
    """MCP server of the tool, and the tool's name on that server. Set only for tools of type
    `mcp`."""
    hosted: HostedTool | None
    """The tool that the model's provider runs. Set only for tools of type `hosted`."""
    implements: ExecutorKind | None
    """Kind of tool that providers define and that this webhook or plugin tool runs instead. The
    kind sets the tool's parameters. Calls need approval unless `approval` is set."""
    settings: ComputerSettings | None
    """Screen of a tool that implements `computer`. Models read the size of the screen. Null:
    models learn the size only from the images."""
    id: str
    """ID of the tool. Globally unique."""
    object: Literal['tool']
    """Always `tool`."""
    version: int
    """Version of the tool. It starts at 1 and grows by 1 with each update. A call uses the
    version that the model saw."""
    created_at: str
    """When the tool was registered."""
    updated_at: str
    """When this version of the resource was created."""


class ToolCall(TypedDict):
    """A tool call of a run, from the model's request to its result."""
    id: str
    """Globally unique ID of the call. Runward sends it to the tool as `webhook-id` and
    `Idempotency-Key`."""
    object: Literal['tool_call']
    """Always `tool_call`."""
    call_id: str
    """ID of the call, as the model's provider generated it. Unique within its run."""
    run_id: str
    """ID of the run that made the call."""
    turn: int
    """Number of the turn whose response requested the call."""
    tool: str
    """Name of the tool, as the model wrote it."""
    tool_version: int | None
    """Version of the tool. Null if the tool does not exist."""
    arguments: JsonObject
    """Arguments that Runward sends or has sent to the tool."""
    omitted_arguments: list[OmittedArgument]
    """Arguments that Runward omitted from `arguments` because of `max_arguments_bytes`."""
    original_arguments: JsonObject | None
    """Arguments that the model requested. Null if no approver edited the arguments."""
    digest: str
    """Digest of the tool, its version, its target URL, and the arguments."""
    requests: JsonValue
    """Input that a webhook tool requests from the client. Set only while `phase` is
    `awaiting_input`."""
    phase: CallPhase
    """Current phase of the call."""
    attempt: int
    """Number of attempts of the call, including an attempt that is about to start. 0 if the call
    was never sent."""
    approval_id: str | None
    """ID of the call's approval. Null if the call needed no approval."""
    child_run_id: str | None
    """ID of the child run that executes the call. If a plugin function runs agents, this is the
    ID of the last child run. If the function last requested several child runs at once, it is
    the ID of the first of these. Null if the call has no child run."""
    outcome: CallOutcome | None
    """Outcome of the call. Null until `phase` is `settled`."""
    reason: CallReason | None
    """Why the call failed, was rejected, or was not run. Null for other calls."""
    output: JsonValue
    """Full output of the call. The model may read a truncated version."""
    is_error: bool
    """Whether the model reads the output as an error."""
    detail: str | None
    """Technical details of the outcome, for operators. The model does not see them."""
    metadata: JsonObject | None
    """Metadata that the tool returned together with its output. The model never sees it."""
    timeout_seconds: float | None
    """Time limit of the last attempt in seconds. Null if no attempt has started or the attempt
    has no limit."""
    created_at: str
    """When the model requested the call."""
    started_at: str | None
    """When the last attempt started. Null if there was no attempt."""
    deadline_at: str | None
    """When Runward stops accepting a callback or a client's result for the call. Null if there
    is no deadline."""
    ended_at: str | None
    """When the call got its result. Null while the call is open."""


class ToolCallApprovalDecidedEvent(TypedDict):
    """A person decided on the call, or Runward applied a remembered decision."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['tool_call.approval_decided']
    """Always `tool_call.approval_decided`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ApprovalDecidedData
    """Data of the event. Its fields depend on the event's type."""


class ToolCallApprovalRequestedEvent(TypedDict):
    """Runward created an approval for the call. The data contains the approval's ID and the
    digest of the call."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['tool_call.approval_requested']
    """Always `tool_call.approval_requested`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ApprovalRequestedData
    """Data of the event. Its fields depend on the event's type."""


class ToolCallArgumentsDeltaData(TypedDict):
    """Data of a `tool_call.arguments.delta` event."""
    turn: int
    """Number of the current turn, counted from 1 in each run."""
    agent: str | None
    """Name of the agent that executes the turn. Null if the run uses no registered agent."""
    text: str
    """Text of this piece."""
    offset: int
    """Number of characters of the same text that came before this piece."""
    call_id: str | None
    """ID of the tool call. Null until the model has generated the ID."""
    tool: str | None
    """Name of the tool. Null until the model has generated the name."""


class ToolCallArgumentsDeltaEvent(TypedDict):
    """A piece of a call's arguments, streamed while the model generates it."""
    type: Literal['tool_call.arguments.delta']
    """Always `tool_call.arguments.delta`."""
    run_id: str
    """ID of the run."""
    data: ToolCallArgumentsDeltaData
    """Data of the event. Its fields depend on the event's type."""


class ToolCallCancellation(TypedDict):
    """A notification that Runward no longer waits for the result of a call."""
    type: Literal['tool_call.cancelled']
    """Always `tool_call.cancelled`."""
    run_id: str
    """ID of the run that made the call."""
    call_id: str
    """ID of the call, as the model's provider generated it. Unique within its run."""
    tool: str
    """Name of the tool."""
    tool_version: int
    """Version of the tool."""
    agent: str | None
    """Name of the agent that requested the call. Null if the run uses no registered agent."""
    attempt: int
    """Number of the last attempt, counted from 1 for each call."""
    fence: int
    """Number that increases each time a worker claims the run. If two requests for one call
    differ, trust the request with the higher number."""
    reason: str
    """Why Runward no longer waits: `run_cancelled`, `run_ended`, or `timed_out`."""


class ToolCallCancelledEvent(TypedDict):
    """The run ended before the call had a result."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['tool_call.cancelled']
    """Always `tool_call.cancelled`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ToolCallEndedData
    """Data of the event. Its fields depend on the event's type."""


class ToolCallCompletedEvent(TypedDict):
    """The call completed. The data contains its output."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['tool_call.completed']
    """Always `tool_call.completed`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ToolCallEndedData
    """Data of the event. Its fields depend on the event's type."""


class ToolCallCreatedData(TypedDict):
    """Data of a `tool_call.created` event."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool, as the model wrote it."""
    tool_version: NotRequired[int | None]
    """Version of the tool. Null if the tool does not exist."""
    tool_type: NotRequired[ToolType | None]
    """Type of the tool. Null if the tool does not exist."""
    hosted: NotRequired[str]
    """Kind of the hosted tool. If Runward does not know the kind, this is the provider's name
    for it. Set only for calls that the provider ran."""
    turn: int
    """Number of the turn whose response requested the call."""
    agent: str | None
    """Name of the agent that requested the call. Null if the run uses no registered agent."""
    arguments: JsonObject | None
    """Exact arguments of the call. Null if they are larger than 32 KiB."""
    arguments_bytes: NotRequired[int]
    """Size of `arguments` in bytes. Set only if `arguments` is too large for the event."""
    arguments_text: NotRequired[str | None]
    """Text that the model wrote as arguments. Set only if the text is not a JSON object. Null if
    it is larger than 32 KiB."""
    arguments_text_bytes: NotRequired[int]
    """Size of `arguments_text` in bytes. Set only if the text is too large for the event."""
    truncated: NotRequired[Literal[True]]
    """True if the arguments are too large for the event. `GET /v1/runs/{run_id}/tool_calls`
    returns the complete arguments."""


class ToolCallCreatedEvent(TypedDict):
    """The model requested a tool call. The data contains the exact arguments."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['tool_call.created']
    """Always `tool_call.created`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ToolCallCreatedData
    """Data of the event. Its fields depend on the event's type."""


class ToolCallEndedData(TypedDict):
    """Data of the events of a tool call that has ended, such as `tool_call.completed`."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool that the call is for."""
    hosted: NotRequired[str]
    """Kind of the hosted tool. If Runward does not know the kind, this is the provider's name
    for it. Set only for calls that the provider ran."""
    attempt: NotRequired[int]
    """Number of attempts of the call."""
    output: NotRequired[JsonValue]
    """Output of the call as the model reads it. A longer output is truncated to 32 KiB."""
    output_bytes: NotRequired[int]
    """Size of the full output in bytes. Set only if the output is too large for the event."""
    truncated: NotRequired[Literal[True]]
    """True if the output in this event is truncated. `GET /v1/runs/{run_id}/tool_calls` returns
    the complete output."""
    is_error: NotRequired[bool]
    """Whether the model reads the output as an error."""
    reason: NotRequired[CallReason]
    """Why the call failed, was rejected, or was not run."""
    detail: NotRequired[str | None]
    """Technical details of the outcome, for operators. The model does not see them."""
    metadata: NotRequired[JsonObject]
    """Metadata that the tool returned together with its output. The model does not see it."""
    awaiting_resolution: NotRequired[Literal[True]]
    """True if the outcome is unknown and a person must record the outcome."""


class ToolCallFailedEvent(TypedDict):
    """The call failed, and the model reads an error. `reason` contains the cause."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['tool_call.failed']
    """Always `tool_call.failed`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ToolCallEndedData
    """Data of the event. Its fields depend on the event's type."""


class ToolCallItem(TypedDict):
    """A tool call that the model requested."""
    type: Literal['tool_call']
    """Always `tool_call`."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    name: str
    """Name of the tool."""
    arguments: JsonObject
    """Arguments of the call. Empty if the model's text is not a JSON object."""
    arguments_text: NotRequired[str]
    """Text that the model wrote as arguments. Set only if the text is not a JSON object."""
    native: NotRequired[ProviderData]
    """Data of the call in the provider's format. Missing if the provider returned no such data."""


class ToolCallList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[ToolCall]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class ToolCallOutcomeUnknownEvent(TypedDict):
    """The call was sent, but it is unknown whether it took effect."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['tool_call.outcome_unknown']
    """Always `tool_call.outcome_unknown`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ToolCallEndedData
    """Data of the event. Its fields depend on the event's type."""


class ToolCallProgressData(TypedDict):
    """Data of a `tool_call.progress` event."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    status: CallProgress
    """What happened to the call."""
    progress: NotRequired[float | None]
    """Progress from 0 to 1, as the tool reported it."""
    message: NotRequired[str | None]
    """Progress message from the tool. The model does not see it."""
    requests: NotRequired[JsonValue]
    """Input that the tool requests from the client. Null if it is larger than 32 KiB."""
    requests_bytes: NotRequired[int]
    """Size of `requests` in bytes. Set only if `requests` is too large for the event."""
    truncated: NotRequired[Literal[True]]
    """True if `requests` is too large for the event. The run's `required_actions` contain the
    complete value."""
    run_id: NotRequired[str]
    """ID of the child run. Set only for the status `child_started`."""
    agent: NotRequired[str | None]
    """Name of the child run's agent. Set only for the status `child_started`."""


class ToolCallProgressEvent(TypedDict):
    """The status of a call changed: for example, the tool accepted it, requested input, or
    reported progress."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['tool_call.progress']
    """Always `tool_call.progress`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ToolCallProgressData
    """Data of the event. Its fields depend on the event's type."""


class ToolCallRejectedEvent(TypedDict):
    """A person or a guardrail rejected the call, or its approval expired."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['tool_call.rejected']
    """Always `tool_call.rejected`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ToolCallEndedData
    """Data of the event. Its fields depend on the event's type."""


class ToolCallRequest(TypedDict):
    """The request for one attempt at a tool call."""
    type: Literal['tool_call']
    """Always `tool_call`."""
    run_id: str
    """ID of the run that made the call."""
    call_id: str
    """ID of the call, as the model's provider generated it. Unique within its run."""
    tool: str
    """Name of the tool."""
    tool_version: int
    """Version of the tool."""
    agent: str | None
    """Name of the agent that requested the call. Null if the run uses no registered agent."""
    arguments: JsonObject
    """Arguments of the call. They match the tool's `parameters`."""
    context: JsonObject | None
    """Context that the client set when it started the run. Null if the client set no context."""
    attempt: int
    """Number of the attempt, counted from 1 for each call."""
    fence: int
    """Number that increases each time a worker claims the run. If two requests for one call
    differ, trust the request with the higher number."""
    deadline_ms: int
    """Number of milliseconds that Runward waits for the response."""
    callback: CallbackAddress
    """Callback address for tools that return 202 and submit the result later."""
    input: NotRequired[JsonObject]
    """Input that the client submitted for an `input_required` request from the tool. It contains
    the client's `responses` and the tool's `state`. Set only if the tool requested input."""
    state: NotRequired[JsonObject]
    """State of the session or, without a session, of the run, when the call started. Set only if
    the tool has `"response": "envelope"`."""


class ToolCallStartedData(TypedDict):
    """Data of a `tool_call.started` event."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool that the call is for."""
    attempt: int
    """Number of the attempt, counted from 1 for each call."""
    digest: str
    """Digest of the tool, its version, its target URL, and the arguments."""
    webhook_id: str
    """Value of the `webhook-id` and `Idempotency-Key` headers that Runward sends to the tool.
    All attempts of a call use the same value."""
    timeout_seconds: float | None
    """Time limit of the call in seconds. Null: the call has no timeout, and Runward waits until
    the run ends."""


class ToolCallStartedEvent(TypedDict):
    """An attempt at the call is about to start. Runward commits this event before it sends the
    first byte."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['tool_call.started']
    """Always `tool_call.started`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ToolCallStartedData
    """Data of the event. Its fields depend on the event's type."""


class ToolCallTimedOutEvent(TypedDict):
    """The tool did not return a complete response before the call timed out."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['tool_call.timed_out']
    """Always `tool_call.timed_out`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: ToolCallEndedData
    """Data of the event. Its fields depend on the event's type."""


class ToolEnvelope(TypedDict):
    """The result of a tool with `"response": "envelope"`. All fields are optional. Unknown
    fields are not allowed."""
    output: NotRequired[JsonValue]
    """Result of the call: any JSON value. The model reads it."""
    state: NotRequired[JsonObject | None]
    """Changes to the state of the session or, without a session, of the run. Null removes a key.
    Null instead of an object: the state does not change."""
    transfer_to: NotRequired[str | None]
    """Name of the agent that continues the run. It must be one of the `handoffs` of the current
    agent. Null: the current agent continues."""
    escalate: NotRequired[bool]
    """Whether the current agent ends after this turn. Default: false."""
    metadata: NotRequired[JsonObject | None]
    """Metadata of the call. Runward stores it and never shows it to the model. Null: no
    metadata."""


class ToolFilter(TypedDict):
    """A filter for the tools of an MCP server, by their names on the server."""
    allow: NotRequired[list[str] | None]
    """Names of the tools to use, as the server names them. Null: all tools."""
    deny: NotRequired[list[str]]
    """Names of the tools to leave out, as the server names them. `deny` overrides `allow`."""


class ToolFilterInput(TypedDict):
    """A filter for the tools of an MCP server, by their names on the server."""
    allow: NotRequired[list[str] | None]
    """Names of the tools to use, as the server names them. Null: all tools."""
    deny: NotRequired[list[str]]
    """Names of the tools to leave out, as the server names them. `deny` overrides `allow`.
    Default: an empty list."""


class ToolList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[Tool]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class ToolResultAction(TypedDict):
    """A tool call that needs a result or input from the client. Submit it with `POST
    /v1/runs/{run_id}/tool_calls/{call_id}/result`."""
    type: Literal['tool_result']
    """Always `tool_result`."""
    run_id: str
    """ID of the run that made the call: this run or one of its child runs at any depth."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the client tool to run, or of the tool that requests input."""
    arguments: JsonObject
    """Arguments of the call."""
    requests: JsonValue
    """Input that a webhook tool requests, in the tool's own format. Null for a tool that the
    client runs."""
    path: list[str]
    """Names of the agents of the child runs that lead from this run to the run that made the
    call. Empty if this run made the call."""


class ToolResultItem(TypedDict):
    """The result of a tool call, as the model reads it."""
    type: Literal['tool_result']
    """Always `tool_result`."""
    call_id: str
    """ID of the tool call that the result belongs to."""
    output: JsonValue
    """Output of the call: any JSON value."""
    is_error: bool
    """Whether the model reads the output as an error."""
    content: NotRequired[list[ItemPart]]
    """Parts of the result: text, images, and files. Set only if the tool returned parts."""


class ToolSecret(TypedDict):
    """The new signing secret of a tool. The previous secret stays valid for 24 hours."""
    secret: str
    """The new signing secret (`whsec_…`). Runward returns it only once."""


class ToolTestResult(TypedDict):
    """The result of a test call."""
    outcome: ToolTestOutcome
    """Outcome of the test call. `accepted`: the tool returned 202 and would submit the result
    later."""
    output: JsonValue
    """Output of the call. If the call failed, the tool's error message for the model. Null if
    the call failed without such a message."""
    detail: str | None
    """Description of the error, for operators. Null if the call succeeded."""
    status: int | None
    """HTTP status of a failed call. Null for other calls and for tools without HTTP."""
    seconds: float
    """Duration of the call in seconds."""


class UpdateAgent(TypedDict):
    """The fields to update. Each field in the request replaces the previous value completely.
    Other fields keep their values."""
    kind: NotRequired[AgentKind]
    """Kind of the agent. `llm` calls a model. The workflows `sequential`, `parallel`, and `loop`
    run the agents in `agents` and have no model."""
    model: NotRequired[str | list[str] | None]
    """Model as `provider:model`, such as `openai:gpt-5.2` or `offline:rules`. If this is a list,
    Runward uses the next model when a model fails."""
    instructions: NotRequired[str]
    """Instructions that the model reads before the input."""
    tools: NotRequired[list[ToolEntry]]
    """Tools that the model may call: names of registered tools, and definitions of tools that
    only this configuration has. A name that ends with `*`, such as `crm_*`, selects all
    registered tools whose names begin with the part before it when a run starts. If there are
    more than 64 tools, Runward gives the model a tool that searches them."""
    handoffs: NotRequired[list[str]]
    """Names of agents that may take over the run. For each of them, Runward gives the model a
    tool `transfer_to_NAME`."""
    agents: NotRequired[list[str]]
    """Names of the agents that a workflow runs, in order. Set only for the kinds `sequential`,
    `parallel`, and `loop`."""
    max_iterations: NotRequired[int]
    """Maximum number of times that a workflow of kind `loop` runs its agents."""
    tool_choice: NotRequired[ToolChoiceInput]
    """Whether the model may (`auto`), must not (`none`), or must (`required`) call a tool. An
    object names the tool that the model must call: `{"name": …}`, or one of the two formats
    of OpenAI's APIs. Responses contain `{"name": …}`."""
    reset_tool_choice: NotRequired[bool]
    """Whether Runward changes `tool_choice` to `auto` after the first tool call, so that the
    model can finish."""
    parallel_tool_calls: NotRequired[bool]
    """Whether the model may request several tool calls in one turn."""
    model_settings: NotRequired[dict[str, JsonValue]]
    """Settings of the model request, such as `temperature`, `max_output_tokens`, or `reasoning`."""
    output_schema: NotRequired[JsonObject | None]
    """JSON Schema of the final output. The run returns the parsed output in `output_parsed`.
    Null: the output is free text."""
    output_retries: NotRequired[int]
    """Maximum number of times that the model may correct an output that does not match
    `output_schema`. If no correction matches, the run ends as `incomplete`."""
    tool_use_behavior: NotRequired[ToolUseMode | StopAtToolsInput]
    """What happens after tool calls. `run_llm_again`: the model reads the results.
    `stop_on_first_tool`: the first successful result becomes the run's output. An object: the
    first successful result of a tool in `stop_at` becomes the run's output."""
    on_unknown_tool: NotRequired[FailureMode]
    """What happens if the model calls a tool that does not exist. `return_error`: the model
    reads an error message. `fail_run`: the run fails."""
    on_max_turns: NotRequired[MaxTurnsMode | MaxTurnsOutputInput]
    """What happens when the run reaches `limits.max_turns`. `incomplete`: the run ends as
    `incomplete`. `summarise`: the model writes a last answer without tools. `fail`: the run
    fails. An object: the run completes with its `output`."""
    limits: NotRequired[LimitsInput]
    """Limits of the run, such as its maximum number of turns."""
    hooks: NotRequired[list[HookInput]]
    """Hooks that Runward calls before and after each model request and each tool call."""
    guardrails: NotRequired[list[GuardrailInput]]
    """Guardrails that check the run's input, its tool calls, and its final output."""
    history: NotRequired[HistoryLimitsInput]
    """Limits on how much of the session's earlier conversation the model sees. By default, the
    model sees all of it."""
    description: NotRequired[str | None]
    """Description of the agent, for people and for agents that may hand over a run to this
    agent."""
    metadata: NotRequired[dict[str, JsonValue]]
    """Custom metadata: up to 64 keys and 16 KiB as JSON."""


class UpdateBudget(TypedDict):
    """The fields to update. To change the period or the runs to which a budget applies, create
    another budget."""
    limit_usd: NotRequired[float | None]
    """Maximum cost of model requests in each period, in US dollars. Only for budgets of the
    cost."""
    limit_tokens: NotRequired[int | None]
    """Maximum number of tokens in each period. Only for budgets of tokens."""
    on_limit: NotRequired[BudgetAction | None]
    """What a run does if the budget has no room for its next model request. `wait`: it waits for
    the next period. `ask`: it waits for an approval to exceed the budget until the next
    period."""


class UpdateConversation(TypedDict):
    """The metadata of a conversation to replace."""
    metadata: dict[str, str]
    """Custom metadata. It replaces the previous metadata completely."""


class UpdateMcpServer(TypedDict):
    """The fields to update. Each field in the request replaces the previous value completely. A
    new `url` also requires new `headers` and `oauth`, unless these fields contain only
    references to secrets."""
    url: NotRequired[str | None]
    """URL of the MCP server. Runward calls it over streamable HTTP. Set either `url` or
    `command`."""
    command: NotRequired[str | None]
    """Command that starts the MCP server. Runward then calls the server over standard input and
    output. The operator must allow the command. Set either `url` or `command`."""
    args: NotRequired[list[str]]
    """Arguments of the command."""
    tools: NotRequired[ToolFilterInput]
    """Filter that selects which tools of the server the project uses. By default, the project
    uses all tools."""
    prefix: NotRequired[str | None]
    """Prefix of the tool names in this project, followed by an underscore. Null: the name of the
    server."""
    approval: NotRequired[ApprovalMode | CelRuleInput | None]
    """Whether calls of the server's tools need approval. Null: `never` for tools that the server
    marks with `readOnlyHint`, and `always` for all others."""
    timeout_seconds: NotRequired[float | None]
    """Timeout of one call of the server's tools, in seconds. Null: the run's
    `limits.tool_timeout_seconds`, or the default of the deployment."""
    headers: NotRequired[dict[str, str | SecretReferenceInput]]
    """HTTP headers that Runward sends with every request. A string is stored encrypted and never
    shown again. An object refers to a secret of the project."""
    oauth: NotRequired[OAuth | None]
    """OAuth credentials with which Runward fetches access tokens for the MCP server. Runward
    sends an access token with every request. Null: no OAuth."""


class UpdateSchedule(TypedDict):
    """The fields to update. `cron`, `at` or `after_seconds` replaces the previous timing. A
    schedule that is enabled continues with the first slot in the future."""
    name: NotRequired[str]
    """Name of the schedule, for people."""
    cron: NotRequired[str | None]
    """Cron expression with five fields: minute, hour, day of month, month, and day of week.
    Null: the schedule starts one run."""
    time_zone: NotRequired[str | None]
    """Time zone of `cron`, as a name of the IANA time zone database. Null: `UTC`."""
    at: NotRequired[str | None]
    """Time of the only run. It must be in the future, by at most ten years."""
    after_seconds: NotRequired[int | None]
    """Seconds until the only run, counted from this request."""
    run: NotRequired[StartRun]
    """Request of each run, as in `POST /v1/runs`. Runward validates it now, and again for each
    slot. At most 64 KiB as JSON."""
    overlap: NotRequired[ScheduleOverlap]
    """What happens at a slot if a run of an earlier slot has not ended. `skip`: the slot starts
    no run. `queue`: the new run waits until the earlier runs have ended. `replace`: Runward
    cancels the earlier runs."""
    misfires: NotRequired[ScheduleMisfires]
    """What happens with slots for which no worker was available for more than a minute. `skip`:
    they start no run. `once`: only the newest of them starts a run. `all`: the newest 100 of
    them start runs, oldest first."""
    enabled: NotRequired[bool]
    """Whether the schedule starts runs."""


class UpdateSession(TypedDict):
    """The fields to update. Runward merges `state` by key: a new value replaces the previous
    value of the same key, and null removes the key. Other keys keep their values."""
    name: NotRequired[str | None]
    """Name of the session, for people. Null removes the name."""
    metadata: NotRequired[dict[str, JsonValue]]
    """Custom metadata: up to 64 keys and 16 KiB as JSON. It replaces the previous metadata
    completely."""
    state: NotRequired[JsonObject]
    """Changes to the shared state. Runward merges them by top-level key. Null as the value of a
    key removes the key."""
    on_conflict: NotRequired[ConflictMode]
    """What happens to a run that is started while another run of the session is open. The new
    value applies to runs that are started after the update."""


class UpdateTool(TypedDict):
    """The fields to update. Each field in the request replaces the previous value completely.
    For tools of plugins and MCP servers, only settings such as `approval` and
    `timeout_seconds` can be updated. For these tools, null restores the original value."""
    description: NotRequired[str]
    """Description of the tool for the model: what the tool does and when to use it."""
    parameters: NotRequired[JsonObject]
    """JSON Schema of the arguments. Its type must be `object`. If the arguments of a call do not
    match the schema, Runward does not send the call."""
    output_schema: NotRequired[JsonObject | None]
    """JSON Schema of the result. If a result does not match, the model reads an error. Null:
    results are not validated."""
    url: NotRequired[str | None]
    """URL of a webhook tool, or of the MCP server of a tool of type `mcp`. Null for all other
    types."""
    agent: NotRequired[str | None]
    """Name of the agent that executes the child run. Set only for tools of type `agent`."""
    output: NotRequired[ChildOutput | ChildToolOutputInput]
    """Which part of the child run becomes the result of a tool of type `agent`. `final`: the
    final output. `json`: the final output parsed as JSON. An object: the last successful
    output of the named tool."""
    response: NotRequired[ToolResponseMode]
    """How Runward reads the response of a webhook tool. `output`: the response is the output of
    the call. `envelope`: requests contain the shared `state`, and the response is an object
    with `output`, `state`, `transfer_to`, `escalate`, and `metadata`, which are all optional."""
    headers: NotRequired[dict[str, str | SecretReferenceInput]]
    """HTTP headers that Runward sends with every call. A string is stored encrypted and never
    shown again. An object refers to a secret of the project."""
    strict: NotRequired[bool]
    """Whether the model must follow the schema exactly. If true, all properties are required,
    and additional properties are not allowed. Optional properties become nullable."""
    timeout_seconds: NotRequired[float | None]
    """Timeout of one call in seconds, including all its attempts. Null: the run's
    `limits.tool_timeout_seconds` or, if that is null, the default of the deployment. For
    tools of type `client`, null means no timeout."""
    on_timeout: NotRequired[FailureMode | FailureMessageInput | None]
    """What happens after a timeout. `return_error`: the model reads an error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object."""
    on_error: NotRequired[FailureMode | FailureMessageInput | None]
    """What happens after an error. `return_error`: the model reads the error. `fail_run`: the
    run fails. An object: the model reads the `message` of the object. A plugin's tool can
    also use a function of the plugin."""
    idempotent: NotRequired[bool]
    """Whether the tool may safely receive the same call more than once. If true, Runward can
    send a call again when its outcome is unknown."""
    on_unknown: NotRequired[UnknownOutcomeMode | None]
    """What happens if Runward does not know whether a call took effect. `return_error`: the
    model reads an error. `ask`: a person must record the outcome. `fail_run`: the run fails."""
    retry: NotRequired[RetryInput]
    """How many times Runward retries a call and how long it waits between attempts."""
    approval: NotRequired[ApprovalMode | CelRuleInput | None]
    """Whether a person must approve each call of the tool: `never`, `always`, or a CEL rule that
    uses `args`, `context`, `run`, and `tool`. A plugin's tool can also use a function of the
    plugin."""
    approval_expires_seconds: NotRequired[float | None]
    """Number of seconds until an approval expires. When it expires, the model reads that nobody
    decided. Default: 7 days. Maximum: 365 days."""
    reject_message: NotRequired[str | None]
    """Message that the model reads if an approver rejects a call without a message. Null:
    Runward uses a built-in message."""
    enabled: NotRequired[bool | CelRuleInput | None]
    """Whether models see the tool: true, false, or a CEL rule that Runward evaluates in every
    turn. A plugin's tool can also use a function of the plugin."""
    defer: NotRequired[bool | None]
    """Whether models see the tool only after they have found it with `search_tools`. If an agent
    has such a tool, Runward gives the model `search_tools`."""
    guardrails: NotRequired[list[GuardrailInput] | None]
    """Guardrails that check the calls and results of this tool. Runward signs their webhook
    requests with the tool's secret."""
    concurrency: NotRequired[ConcurrencyInput | None]
    """How many calls of the tool may run at the same time within one run."""
    max_output_bytes: NotRequired[int | None]
    """Maximum size in bytes of a result that the model reads. If a result is longer, Runward
    stores it in full, and the model reads a truncated version."""
    metadata: NotRequired[dict[str, JsonValue] | None]
    """Custom metadata of the tool. CEL rules can read it as `tool.metadata`."""
    hosted: NotRequired[HostedToolInput | None]
    """The tool that the model's provider runs. Set only for tools of type `hosted`."""
    settings: NotRequired[ComputerSettingsInput | None]
    """Screen of a tool that implements `computer`. Models read the size of the screen. Null:
    models learn the size only from the images."""


class UpdateWebhookEndpoint(TypedDict):
    """The fields to update. `enabled: true` also enables an endpoint that Runward has disabled.
    All its pending deliveries are then due."""
    url: NotRequired[str]
    """URL that receives the notifications. Runward checks its address before each attempt."""
    description: NotRequired[str]
    """Description for people."""
    events: NotRequired[list[NotificationPattern]]
    """Types of the notifications. `run.*` selects all types that begin with `run.`, and `*`
    selects all types."""
    include: NotRequired[list[Literal['output']]]
    """Content that the notifications contain. `output`: the output or the error message of a run
    that has ended."""
    enabled: NotRequired[bool]
    """Whether the endpoint receives notifications."""


class Usage(TypedDict):
    """Tokens that the run has used so far, as the providers of its models reported them."""
    input_tokens: int
    """Number of input tokens."""
    output_tokens: int
    """Number of output tokens."""
    cached_tokens: int
    """Number of input tokens that the provider read from its cache."""
    reasoning_tokens: int
    """Number of output tokens that the model used for reasoning."""
    total_tokens: int
    """Number of input and output tokens together."""
    cost_usd: float
    """Cost in US dollars, including child runs. Models without a known price do not count."""


class UsageUpdatedData(TypedDict):
    """Data of a `usage.updated` event."""
    turn: int
    """Number of turns that the run has had so far."""
    call_id: NotRequired[str]
    """ID of the tool call that started the child run, or of the call whose plugin function
    reported the usage. Not set for the usage of the run's own model requests."""
    model: NotRequired[str]
    """Model that a plugin function used. Set only if the function reported the usage."""
    input_tokens: int
    """Total number of input tokens of the run so far."""
    output_tokens: int
    """Total number of output tokens of the run so far."""
    cached_tokens: int
    """Number of input tokens that the provider read from its cache."""
    reasoning_tokens: int
    """Number of output tokens that the model used for reasoning."""
    total_tokens: int
    """Total number of input and output tokens of the run so far."""
    cost_usd: float
    """Total cost of the run so far in US dollars."""


class UsageUpdatedEvent(TypedDict):
    """The total number of tokens that the run has used so far."""
    id: str
    """ID of the event. Globally unique."""
    type: Literal['usage.updated']
    """Always `usage.updated`."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a
    stream, it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: str
    """When the event was committed, according to the database's clock."""
    data: UsageUpdatedData
    """Data of the event. Its fields depend on the event's type."""


class WebhookAttempt(TypedDict):
    """One attempt of a delivery, with the endpoint's response."""
    sent_at: str
    """When Runward sent the request."""
    duration_ms: float
    """Milliseconds until the end of the response, or until the attempt failed."""
    status_code: int | None
    """HTTP status of the response. Null without a response."""
    response_body: str | None
    """First 4 KiB of the response as text. Null without a response, or after the content of the
    run was erased."""
    error: str | None
    """Why the attempt failed without a response, or what is wrong with the response."""


class WebhookDelivery(TypedDict):
    """One notification to one endpoint, with all its attempts."""
    id: str
    """ID of the delivery."""
    object: Literal['webhook_delivery']
    """Always `webhook_delivery`."""
    webhook_endpoint_id: str | None
    """ID of the webhook endpoint. Null for the `webhook` of a run."""
    run_id: str | None
    """ID of the run. Null if the notification is about no run."""
    event_id: str
    """ID of the event. All attempts of all deliveries of an event have this ID as `webhook-id`."""
    type: str
    """Type of the notification."""
    status: DeliveryStatus
    """Status of the delivery."""
    request: WebhookRequest
    """Request that Runward sends."""
    attempts: list[WebhookAttempt]
    """The newest 20 attempts, oldest first."""
    next_attempt_at: str | None
    """When the next attempt is due. Null if there is none, or if it waits until the endpoint is
    enabled."""
    created_at: str
    """When the delivery was created. By default, Runward deletes it 30 days later."""
    ended_at: str | None
    """When the delivery ended. Null while it is pending."""


class WebhookDeliveryList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[WebhookDelivery]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class WebhookEndpoint(TypedDict):
    """An address that receives notifications of the project's events."""
    id: str
    """ID of the webhook endpoint."""
    object: Literal['webhook_endpoint']
    """Always `webhook_endpoint`."""
    url: str
    """URL that receives the notifications."""
    description: str
    """Description for people."""
    events: list[str]
    """Types of the notifications that the endpoint receives."""
    include: list[str]
    """Content that the notifications contain."""
    enabled: bool
    """Whether the endpoint receives notifications."""
    disabled_reason: DisabledReason | None
    """Why Runward disabled the endpoint. Null if it is enabled, or if a client disabled it."""
    failing_since: str | None
    """When the first of the latest attempts failed. Null if the last attempt was successful."""
    created_at: str
    """When the endpoint was created."""
    updated_at: str
    """When the endpoint was last updated."""


class WebhookEndpointList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[WebhookEndpoint]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class WebhookEndpointSecret(TypedDict):
    """The new signing secret of a webhook endpoint. The previous secret stays valid for 24
    hours."""
    secret: str
    """The new signing secret (`whsec_…`). Runward returns it only once."""


class WebhookGuardrail(TypedDict):
    """A guardrail that Runward calls with a signed POST request. The response contains the
    verdict."""
    stage: GuardrailStage
    """Stage at which Runward calls the guardrail: before an approval is created
    (`pre_approval`), before the call is sent (`input`), or after the call returned a result
    (`output`). Guardrails of agents and projects can also check the run's input (`run_input`)
    and final output (`run_output`)."""
    type: Literal['webhook']
    """`webhook`: Runward sends a signed POST request."""
    url: str
    """URL to which Runward sends the POST requests."""
    timeout_seconds: NotRequired[float]
    """Timeout of one check or hook, in seconds. If a guardrail times out, Runward treats the
    timeout as a rejection. If a hook times out, the hook fails."""


class WebhookGuardrailInput(TypedDict):
    """A guardrail that Runward calls with a signed POST request. The response contains the
    verdict."""
    stage: GuardrailStage
    """Stage at which Runward calls the guardrail: before an approval is created
    (`pre_approval`), before the call is sent (`input`), or after the call returned a result
    (`output`). Guardrails of agents and projects can also check the run's input (`run_input`)
    and final output (`run_output`)."""
    type: Literal['webhook']
    """`webhook`: Runward sends a signed POST request."""
    url: str
    """URL to which Runward sends the POST requests."""
    timeout_seconds: NotRequired[float]
    """Timeout of one check or hook, in seconds. If a guardrail times out, Runward treats the
    timeout as a rejection. If a hook times out, the hook fails. Default: 10."""


class WebhookHook(TypedDict):
    """A hook that Runward calls with a signed POST request. The response may replace the message
    of the model or the output of the tool."""
    on: HookPoint
    """Point at which Runward calls the hook: before or after a model request, or before or after
    a tool call."""
    type: Literal['webhook']
    """`webhook`: Runward sends a signed POST request."""
    url: str
    """URL to which Runward sends the POST requests."""
    timeout_seconds: NotRequired[float]
    """Timeout of one check or hook, in seconds. If a guardrail times out, Runward treats the
    timeout as a rejection. If a hook times out, the hook fails."""


class WebhookHookInput(TypedDict):
    """A hook that Runward calls with a signed POST request. The response may replace the message
    of the model or the output of the tool."""
    on: HookPoint
    """Point at which Runward calls the hook: before or after a model request, or before or after
    a tool call."""
    type: Literal['webhook']
    """`webhook`: Runward sends a signed POST request."""
    url: str
    """URL to which Runward sends the POST requests."""
    timeout_seconds: NotRequired[float]
    """Timeout of one check or hook, in seconds. If a guardrail times out, Runward treats the
    timeout as a rejection. If a hook times out, the hook fails. Default: 10."""


class WebhookRequest(TypedDict):
    """The request that Runward sends for a delivery. Each attempt also has headers of its own,
    such as `webhook-timestamp` and `webhook-signature`."""
    url: str
    """URL that receives the notification."""
    headers: dict[str, str]
    """Headers that are the same for each attempt."""
    body: JsonObject
    """Body of the request."""


class WorkerProcess(TypedDict):
    """A worker process, as it was at its last heartbeat."""
    id: str
    """ID of the worker. A worker gets a new ID each time it starts."""
    object: Literal['worker']
    """Always `worker`."""
    version: str
    """Version of Runward that the worker runs."""
    host: str
    """Host name of the worker's machine or container."""
    concurrency: int
    """Maximum number of runs that the worker executes at the same time."""
    runs: int
    """Number of runs that the worker executed at its last heartbeat."""
    started_at: str
    """When the worker started."""
    last_heartbeat_at: str
    """When the worker sent its last heartbeat. Workers send one every 10 seconds. If it is older
    than 30 seconds, the worker was lost or cannot reach the database."""


class WorkerProcessList(TypedDict):
    """A page of a list. To get the next page, pass `last_id` as `after`. To get the previous
    page, pass `first_id` as `before`."""
    object: Literal['list']
    """Always `list`."""
    data: list[WorkerProcess]
    """Items of the page, in the requested order."""
    first_id: str | None
    """Cursor for the previous page. Pass it as `before`. The cursor is the ID of the first item,
    or of the last resource that a search examined. Null if the page is empty and no search
    can continue."""
    last_id: str | None
    """Cursor for the next page. Pass it as `after`. The cursor is the ID of the last item, or of
    the last resource that a search examined. Null if the page is empty and no search can
    continue."""
    has_more: bool
    """Whether there are more items after this page. If the request contains `before`, whether
    there are more items before this page."""


class StartRunQuery(TypedDict):
    """The query of `start_run`."""
    wait: NotRequired[float]
    """Maximum number of seconds to wait before responding. A request for a run waits until the
    run has ended or has the status `requires_action`. A request for events waits until there
    is a new event."""


class ListRunsQuery(TypedDict):
    """The query of `list_runs`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""
    status: NotRequired[str]
    """Return only runs with this status. Separate several statuses with commas."""
    agent: NotRequired[str]
    """Return only runs of this agent."""
    session_id: NotRequired[str]
    """Return only runs of this session."""
    schedule_id: NotRequired[str]
    """Return only runs of this schedule."""
    parent_run_id: NotRequired[str]
    """Return the child runs of this run."""
    created_after: NotRequired[str]
    """Return only runs accepted at or after this time."""
    created_before: NotRequired[str]
    """Return only runs accepted before this time."""
    q: NotRequired[str]
    """Return only runs that contain this text. The search ignores case. Runward searches user
    messages, outputs, errors, metadata values, agent names, and model names. If the text is
    the beginning of a run ID with at least 8 digits, such as `run_019a5f1e`, Runward returns
    the runs whose IDs start with it, including child runs."""


class GetRunQuery(TypedDict):
    """The query of `get_run`."""
    include: NotRequired[Literal['config']]
    """Additional data to return. `config`: the input and the configuration of the run."""
    wait: NotRequired[float]
    """Maximum number of seconds to wait before responding. A request for a run waits until the
    run has ended or has the status `requires_action`. A request for events waits until there
    is a new event."""


class ListItemsQuery(TypedDict):
    """The query of `list_items`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 100."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the items. `asc`: oldest first. `desc`: newest first. Default: `asc`."""


class ListToolCallsQuery(TypedDict):
    """The query of `list_tool_calls`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 100."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the items. `asc`: oldest first. `desc`: newest first. Default: `asc`."""


class GetResponseQuery(TypedDict):
    """The query of `get_response`."""
    stream: NotRequired[bool]
    """Whether to return a stream of the response's events. Default: false."""
    starting_after: NotRequired[int]
    """`sequence_number` of the last event that the client received. The stream begins with the
    next event."""
    include_obfuscation: NotRequired[bool]
    """Whether events have random padding. Runward supports only false. Default: false."""
    include: NotRequired[list[ResponseInclude]]
    """Additional data, as in `POST /v1/responses`. The parameter can also have the name
    `include[]`, which OpenAI's SDKs use."""


class ListInputItemsQuery(TypedDict):
    """The query of `list_input_items`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""
    include: NotRequired[list[ResponseInclude]]
    """Additional data, as in `POST /v1/responses`. The parameter can also have the name
    `include[]`, which OpenAI's SDKs use."""


class ListConversationItemsQuery(TypedDict):
    """The query of `list_conversation_items`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""


class ListSessionsQuery(TypedDict):
    """The query of `list_sessions`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""


class DeleteSessionQuery(TypedDict):
    """The query of `delete_session`."""
    erase_runs: NotRequired[bool]
    """Also erase the content of the session's runs, as `DELETE /v1/runs/{run_id}` does. Runward
    first cancels open runs. Default: false."""


class ListSessionItemsQuery(TypedDict):
    """The query of `list_session_items`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 100."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the items. `asc`: oldest first. `desc`: newest first. Default: `asc`."""


class ListEventsQuery(TypedDict):
    """The query of `list_events`."""
    limit: NotRequired[int]
    """Maximum number of events to return. Default: 100."""
    until: NotRequired[Literal['idle']]
    """Additional condition that ends the stream. `idle`: the stream also ends when the run waits
    for a person or a client. By default, it ends only with the run."""
    include: NotRequired[Literal['children']]
    """Additional events to return. `children`: the events of all child runs at any depth, in the
    order in which they happened."""
    after: NotRequired[str]
    """Sequence number of the last event that the client received. With `include=children`, use
    the `last_id` of the previous page."""
    wait: NotRequired[float]
    """Maximum number of seconds to wait before responding. A request for a run waits until the
    run has ended or has the status `requires_action`. A request for events waits until there
    is a new event."""


class ListProjectEventsQuery(TypedDict):
    """The query of `list_project_events`."""
    after: NotRequired[str]
    """Cursor: the `last_id` of the previous page. `latest` returns an empty page whose `last_id`
    is the end of the log. By default, the log is read from the beginning."""
    limit: NotRequired[int]
    """Maximum number of events to return. Default: 100."""


class ListApprovalsQuery(TypedDict):
    """The query of `list_approvals`."""
    status: NotRequired[ApprovalStatus]
    """Return only approvals with this status. `pending` returns the approvals that need a
    decision."""
    run_id: NotRequired[str]
    """Return only approvals of this run."""
    tool: NotRequired[str]
    """Return only approvals for this tool."""
    max_arguments_bytes: NotRequired[int]
    """Maximum total size of each call's arguments, in bytes of JSON. Runward omits the arguments
    that do not fit and lists them in `omitted_arguments`. By default, Runward returns all
    arguments."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""


class GetApprovalQuery(TypedDict):
    """The query of `get_approval`."""
    max_arguments_bytes: NotRequired[int]
    """Maximum total size of each call's arguments, in bytes of JSON. Runward omits the arguments
    that do not fit and lists them in `omitted_arguments`. By default, Runward returns all
    arguments."""


class ListRequiredActionsQuery(TypedDict):
    """The query of `list_required_actions`."""
    limit: NotRequired[int]
    """Maximum number of calls to return. Default: 100."""


class GetToolCallQuery(TypedDict):
    """The query of `get_tool_call`."""
    max_arguments_bytes: NotRequired[int]
    """Maximum total size of each call's arguments, in bytes of JSON. Runward omits the arguments
    that do not fit and lists them in `omitted_arguments`. By default, Runward returns all
    arguments."""


class ListToolsQuery(TypedDict):
    """The query of `list_tools`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list by name. `asc`: A to Z. `desc`: Z to A. Default: `asc`."""


class ListRecentCallsQuery(TypedDict):
    """The query of `list_recent_calls`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""


class ListMcpServersQuery(TypedDict):
    """The query of `list_mcp_servers`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list by name. `asc`: A to Z. `desc`: Z to A. Default: `asc`."""


class ListSecretsQuery(TypedDict):
    """The query of `list_secrets`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list by name. `asc`: A to Z. `desc`: Z to A. Default: `asc`."""


class ListAgentsQuery(TypedDict):
    """The query of `list_agents`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list by name. `asc`: A to Z. `desc`: Z to A. Default: `asc`."""


class GetAgentQuery(TypedDict):
    """The query of `get_agent`."""
    version: NotRequired[int]
    """Version of the agent. Default: the current version."""


class ListAgentVersionsQuery(TypedDict):
    """The query of `list_agent_versions`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[int]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[int]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""


class ListSchedulesQuery(TypedDict):
    """The query of `list_schedules`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""


class ListScheduleSlotsQuery(TypedDict):
    """The query of `list_schedule_slots`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""


class ListWebhookEndpointsQuery(TypedDict):
    """The query of `list_webhook_endpoints`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""


class ListWebhookDeliveriesQuery(TypedDict):
    """The query of `list_webhook_deliveries`."""
    webhook_endpoint_id: NotRequired[str]
    """Return only deliveries to this webhook endpoint."""
    run_id: NotRequired[str]
    """Return only deliveries about this run."""
    status: NotRequired[DeliveryStatus]
    """Return only deliveries with this status."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""


class ListLegalHoldsQuery(TypedDict):
    """The query of `list_legal_holds`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""


class ListAuditLogQuery(TypedDict):
    """The query of `list_audit_log`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""
    action: NotRequired[AuditAction]
    """Return only entries with this action."""
    actor_id: NotRequired[str]
    """Return only changes by this API key."""
    resource_type: NotRequired[str]
    """Return only changes of resources of this type."""
    resource_id: NotRequired[str]
    """Return only changes of resources with this ID or name."""
    created_after: NotRequired[str]
    """Return only entries created at or after this time."""
    created_before: NotRequired[str]
    """Return only entries created before this time."""


class ExportAuditLogQuery(TypedDict):
    """The query of `export_audit_log`."""
    after: NotRequired[int]
    """Return the entries after this number. Use the number of the last entry of the previous
    export. Default: 0."""


class ListBudgetsQuery(TypedDict):
    """The query of `list_budgets`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""


class ListKeysQuery(TypedDict):
    """The query of `list_keys`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""


class ListProjectsQuery(TypedDict):
    """The query of `list_projects`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""


class ListWorkersQuery(TypedDict):
    """The query of `list_workers`."""
    limit: NotRequired[int]
    """Maximum number of items to return. Default: 20."""
    after: NotRequired[str]
    """Return the page that follows this cursor. Use the `last_id` of a page."""
    before: NotRequired[str]
    """Return the page that precedes this cursor. Use the `first_id` of a page. Not allowed with
    `after`."""
    order: NotRequired[SortOrder]
    """Order of the list. `asc`: oldest first. `desc`: newest first. Default: `desc`."""


ActionType: TypeAlias = "Literal['approval', 'resolve', 'tool_result']"
"""What a tool call waits for: a decision (`approval`), a record of its outcome (`resolve`),
or a result (`tool_result`). Later versions may add values."""

ActorType: TypeAlias = "Literal['key', 'console_session', 'operator']"
"""Who changed something. `key`: a request with an API key. `console_session`: a person in
the console. `operator`: a command on the database, or the configuration of the
deployment. Later versions may add values."""

AgentKind: TypeAlias = "Literal['llm', 'sequential', 'parallel', 'loop']"
"""Kind of an agent: `llm` calls a model, and the other kinds are workflows that run other
agents. Later versions may add values."""

ApprovalMode: TypeAlias = "Literal['never', 'always']"
"""Whether calls of a tool need approval. Later versions may add values."""

ApprovalStatus: TypeAlias = "Literal['pending', 'approved', 'rejected', 'edited', 'responded', 'expired', 'cancelled', 'superseded']"
"""Status of an approval. `pending`: a person must decide. `approved`, `rejected`, `edited`,
and `responded`: a person has decided. `expired`: nobody decided in time. `cancelled`: the
run ended first. `superseded`: the tool changed, and Runward created a new approval. Later
versions may add values."""

AuditAction: TypeAlias = "Literal['agent.created', 'agent.updated', 'agent.deleted', 'approval.approved', 'approval.edited', 'approval.rejected', 'approval.responded', 'budget.created', 'budget.updated', 'budget.deleted', 'console_session.created', 'console_session.refused', 'console_session.deleted', 'data_key.created', 'data_key.deleted', 'erasure.created', 'key.created', 'key.revoked', 'legal_hold.created', 'legal_hold.updated', 'legal_hold.deleted', 'limits.updated', 'mcp_server.created', 'mcp_server.updated', 'mcp_server.refreshed', 'mcp_server.deleted', 'mcp_server.login_started', 'mcp_server.logged_in', 'mcp_server.logged_out', 'policy.updated', 'project.created', 'retention.updated', 'run.cancelled', 'run.erased', 'schedule.created', 'schedule.updated', 'schedule.deleted', 'secret.created', 'secret.updated', 'secret.deleted', 'session.deleted', 'session.item_deleted', 'signing_secret.rotated', 'tool.created', 'tool.updated', 'tool.deleted', 'tool.secret_rotated', 'tool_call.resolved', 'webhook_endpoint.created', 'webhook_endpoint.updated', 'webhook_endpoint.deleted', 'webhook_endpoint.secret_rotated']"
"""What happened: the type of the resource, and a verb."""

AuthMethod: TypeAlias = "Literal['client_secret_basic', 'client_secret_post']"
"""How a client secret is sent to an authorization server."""

BudgetAction: TypeAlias = "Literal['wait', 'ask']"
"""What a run does if a budget has no room for its next model request. `wait`: it waits for
the next period. `ask`: it waits for an approval to exceed the budget until the next
period. Later versions may add values."""

BudgetPeriod: TypeAlias = "Literal['minute', 'day', 'month']"
"""Period of a budget: a minute, a day or a month in UTC. Later versions may add values."""

CallOutcome: TypeAlias = "Literal['completed', 'failed', 'timed_out', 'rejected', 'outcome_unknown', 'cancelled']"
"""How a tool call ended. Later versions may add values."""

CallPhase: TypeAlias = "Literal['awaiting_approval', 'ready', 'started', 'awaiting_callback', 'awaiting_result', 'awaiting_input', 'awaiting_child', 'awaiting_resolution', 'settled']"
"""Phase of a tool call. `awaiting_approval`: a person must decide. `ready`: the call can
start. `started`: the call is being sent. `awaiting_callback`: the tool returned 202 and
will submit the result. `awaiting_result`: the client must submit the result.
`awaiting_input`: the client must submit input that the tool requests. `awaiting_child`: a
child run executes the call. `awaiting_resolution`: the outcome is unknown, and a person
must record it. `settled`: the call has a result. Later versions may add values."""

CallProgress: TypeAlias = "Literal['accepted', 'awaiting_result', 'input_required', 'input_given', 'received', 'progress', 'retried_by_person', 'child_started']"
"""Progress of a tool call. `accepted`: the tool returned 202. `awaiting_result`: the client
must submit the result. `input_required`: the tool requests input. `input_given`: the
client submitted the input. `received`: a result arrived and is being checked. `progress`:
the tool reported progress. `retried_by_person`: a person chose to send the call again.
`child_started`: a child run was started. Later versions may add values."""

CallReason: TypeAlias = "Literal['tool_error', 'not_sent', 'invalid_response', 'invalid_output', 'invalid_arguments', 'truncated_response', 'unknown_tool', 'repeated_call', 'max_tool_calls', 'declined', 'declined_before', 'approval_expired', 'guardrail', 'responded', 'resolved', 'run_ended', 'run_cancelled', 'returned_to_client']"
"""Why a call failed or was not run, as a stable code. Later versions may add values."""

Callback: TypeAlias = 'CallbackProgress | CallbackCompleted | CallbackFailed | CallbackInputRequired'
"""The body of a callback: progress, a result, a failure, or a request for input."""

CancelMode: TypeAlias = "Literal['immediate', 'after_turn']"
"""Whether the model's current response and running calls can finish before the run ends."""

ChatCompletionStream: TypeAlias = 'str'
"""A stream of server-sent events in the format of OpenAI's Chat Completions API. `data` is a
ChatCompletionChunk as one line of JSON. The last `data` is `[DONE]`."""

ChildOutput: TypeAlias = "Literal['final', 'json']"
"""Which part of a child run becomes the result of the tool call. Later versions may add
values."""

CompletionFinishReason: TypeAlias = "Literal['stop', 'length', 'tool_calls', 'content_filter']"
"""Why a chat completion ended. Later versions may add values."""

CompletionFormat: TypeAlias = 'ResponseFormatText | ResponseFormatJsonObject | CompletionFormatJsonSchema'
"""Format of a completion's output: text, any JSON object, or JSON that matches a schema."""

CompletionTool: TypeAlias = 'CompletionFunctionTool | ResponseMcpTool'
"""A function that the client runs, or registered tools, in OpenAI's format."""

ComputerEnvironment: TypeAlias = "Literal['browser', 'linux', 'mac', 'ubuntu', 'windows']"
"""Kind of environment that the screen of a computer shows. Later versions may add values."""

ConflictMode: TypeAlias = "Literal['queue', 'reject', 'cancel_previous']"
"""What happens to a run that is started while another run of its session is open. Later
versions may add values."""

Decision: TypeAlias = 'ApproveDecision | RejectDecision | EditDecision | RespondDecision'
"""A person's decision about a tool call."""

DecisionKind: TypeAlias = "Literal['approve', 'reject', 'edit', 'respond']"
"""Kind of a decision about a tool call. Later versions may add values."""

DeliveryStatus: TypeAlias = "Literal['pending', 'delivered', 'failed']"
"""Status of a delivery. `pending`: Runward will make an attempt. `delivered`: the endpoint
responded with a 2xx status. `failed`: all attempts failed. Later versions may add values."""

DisabledReason: TypeAlias = "Literal['gone', 'failing']"
"""Why Runward disabled an endpoint. `gone`: it responded with status 410. `failing`: all
attempts of three days failed. Later versions may add values."""

ErasureStatus: TypeAlias = "Literal['in_progress', 'completed']"
"""Status of an erasure. `in_progress`: workers process it. `completed`: they have processed
all runs and sessions. Later versions may add values."""

ErrorCode: TypeAlias = "Literal['unauthenticated', 'forbidden', 'insufficient_scope', 'conflict', 'approval_already_decided', 'digest_mismatch', 'decision_not_allowed', 'run_ended', 'run_unreadable', 'session_busy', 'call_not_waiting', 'too_early', 'result_already_given', 'legal_hold', 'already_exists', 'idempotency_in_flight', 'gone', 'events_removed', 'late_callback', 'bad_request', 'invalid_json', 'request_timeout', 'payload_too_large', 'unsupported_media_type', 'invalid_request', 'unknown_model', 'unknown_tool', 'unknown_agent', 'unsupported_parameter', 'previous_response_not_found', 'idempotency_key_reused', 'mcp_unreachable', 'too_many_requests', 'unavailable', 'not_found', 'run_not_found', 'run_erased', 'call_not_found', 'approval_not_found', 'response_not_found', 'model_not_found', 'tool_not_found', 'agent_not_found', 'mcp_server_not_found', 'secret_not_found', 'session_not_found', 'key_not_found', 'project_not_found', 'webhook_endpoint_not_found', 'legal_hold_not_found', 'erasure_not_found', 'webhook_delivery_not_found', 'schedule_not_found', 'budget_not_found', 'callback_not_found', 'method_not_allowed', 'headers_too_large', 'internal_error']"
"""Stable error code, for programs. Later versions may add values."""

Event: TypeAlias = 'RunCreatedEvent | RunStartedEvent | RunWaitingEvent | BudgetExceededEvent | RunResumedEvent | RunCompletedEvent | RunFailedEvent | RunCancelledEvent | RunIncompleteEvent | RunExpiredEvent | MessageCompletedEvent | ReasoningCompletedEvent | ToolCallCreatedEvent | ToolCallApprovalRequestedEvent | ToolCallApprovalDecidedEvent | ToolCallStartedEvent | ToolCallProgressEvent | ToolCallCompletedEvent | ToolCallFailedEvent | ToolCallTimedOutEvent | ToolCallRejectedEvent | ToolCallOutcomeUnknownEvent | ToolCallCancelledEvent | HandoffCompletedEvent | StateUpdatedEvent | InputReceivedEvent | UsageUpdatedEvent | ModelRetriedEvent | ModelSettingDroppedEvent | ModelCallsChangedEvent'
"""An event of a run's log. Polling and streaming return the same events. Later versions may
add types. Clients must ignore unknown types."""

EventStream: TypeAlias = 'str'
"""A stream of server-sent events. `id` is the sequence number, `event` is the type, and
`data` is a StreamedEvent as one line of JSON. Pieces have no `id`."""

ExecutorKind: TypeAlias = "Literal['shell', 'apply_patch', 'computer']"
"""Kind of tool that providers define and that a webhook or plugin tool runs instead. Later
versions may add values."""

FailureMode: TypeAlias = "Literal['return_error', 'fail_run']"
"""What happens after a failure: the model reads an error, or the run fails. Later versions
may add values."""

GrantType: TypeAlias = "Literal['client_credentials', 'refresh_token', 'authorization_code']"
"""An OAuth grant with which Runward gets access tokens. Later versions may add values."""

Guardrail: TypeAlias = 'WebhookGuardrail | PluginGuardrail'
"""A check that may reject a tool call, a run's input, or a run's output. Later versions may
add types. Clients must ignore unknown types."""

GuardrailInput: TypeAlias = 'WebhookGuardrailInput | PluginGuardrailInput'
"""A check that may reject a tool call, a run's input, or a run's output."""

GuardrailResponse: TypeAlias = 'GuardrailAllow | GuardrailReject | GuardrailFail'
"""The verdict of a guardrail."""

GuardrailStage: TypeAlias = "Literal['pre_approval', 'input', 'output', 'run_input', 'run_output']"
"""Stage at which a guardrail checks a tool call or a run. Later versions may add values."""

HoldKind: TypeAlias = "Literal['run', 'session', 'project']"
"""Kind of a resource under a legal hold. Later versions may add values."""

Hook: TypeAlias = 'WebhookHook | PluginHook'
"""A hook that Runward calls before or after a model request or a tool call. The response can
replace data. Later versions may add types. Clients must ignore unknown types."""

HookInput: TypeAlias = 'WebhookHookInput | PluginHookInput'
"""A hook that Runward calls before or after a model request or a tool call. The response can
replace data."""

HookPoint: TypeAlias = "Literal['before_model', 'after_model', 'before_tool', 'after_tool']"
"""Point at which a hook is called: before or after a model request, or before or after a
tool call. Later versions may add values."""

HostedToolKind: TypeAlias = "Literal['web_search', 'file_search', 'code_interpreter', 'image_generation', 'mcp', 'shell']"
"""Kind of tool that model providers run. Later versions may add values."""

ImageDetail: TypeAlias = "Literal['auto', 'low', 'high']"
"""Level of detail of an image, in OpenAI's format."""

Input: TypeAlias = 'str | list[InputMessage]'
"""A string, or the messages of a conversation."""

InputAssistantPart: TypeAlias = 'InputText | InputImage | InputFile | InputImageUrlPart | InputImagePart | InputFilePart | InputRefusal'
"""A part of a message of the assistant: text, an image, a file, or a refusal."""

InputMessage: TypeAlias = 'InputUserMessage | InputAssistantMessage | InputToolMessage'
"""A message of a conversation, in the format of OpenAI's Chat Completions API."""

InputPart: TypeAlias = 'InputText | InputImage | InputFile | InputImageUrlPart | InputImagePart | InputFilePart'
"""A part of a message: text, an image, or a file."""

InputTextType: TypeAlias = "Literal['text', 'input_text']"
"""Kind of a text part. `input_text` has the same meaning as `text`."""

InputUserRole: TypeAlias = "Literal['user', 'system', 'developer']"
"""Role of the author of a message that no model wrote. `developer` has the same meaning as
`system`."""

Item: TypeAlias = 'MessageItem | ToolCallItem | ToolResultItem | ReasoningItem | HostedCallItem'
"""An item of a conversation. Later versions may add types. Clients must ignore unknown
types."""

ItemPart: TypeAlias = 'ItemText | ItemImage | ItemFile'
"""A part of an item: text, an image, or a file. Later versions may add types. Clients must
ignore unknown types."""

ItemRole: TypeAlias = "Literal['user', 'assistant', 'system', 'developer']"
"""Role of a message's author, in OpenAI's format. `developer` has the same meaning as
`system`."""

JsonObject: TypeAlias = 'dict[str, JsonValue]'
"""Any JSON object."""

JsonValue: TypeAlias = 'Any'

LoginStatus: TypeAlias = "Literal['required', 'pending', 'logged_in', 'expired']"
"""Status of a person's login to an MCP server. Later versions may add values."""

MaxTurnsMode: TypeAlias = "Literal['incomplete', 'summarise', 'fail']"
"""What happens when a run reaches its maximum number of turns. Later versions may add
values."""

MessagePhase: TypeAlias = "Literal['commentary', 'final_answer']"
"""Whether a message is the final answer or an intermediate comment."""

MessageRole: TypeAlias = "Literal['user', 'assistant', 'system']"
"""Role of a message's author. Later versions may add values."""

NotificationPattern: TypeAlias = "Literal['*', 'run.*', 'run.created', 'run.started', 'run.waiting', 'run.resumed', 'run.completed', 'run.failed', 'run.cancelled', 'run.incomplete', 'run.expired', 'approval.*', 'approval.requested', 'approval.decided', 'approval.expired', 'tool_call.outcome_unknown', 'webhook_endpoint.disabled']"
"""A type of notification, or all types with a prefix."""

RegisteredToolType: TypeAlias = "Literal['webhook', 'agent', 'client', 'hosted']"
"""How Runward executes a tool that a project registers."""

RememberScope: TypeAlias = "Literal['run', 'session']"
"""Where a remembered decision applies: the rest of the run, or also later runs of the
session."""

RequiredAction: TypeAlias = 'ApprovalAction | ResolveAction | ToolResultAction'
"""An action that a person or a client must perform for a run. Later versions may add types.
Clients must ignore unknown types."""

Resolution: TypeAlias = 'CompletedResolution | FailedResolution | RetryResolution'
"""A person's record of a tool call's outcome."""

ResponseFormat: TypeAlias = 'ResponseFormatText | ResponseFormatJsonObject | ResponseFormatJsonSchema'
"""Format of the model's output: text, a JSON object, or JSON that matches a schema."""

ResponseInclude: TypeAlias = "Literal['code_interpreter_call.outputs', 'computer_call_output.output.image_url', 'file_search_call.results', 'message.input_image.image_url', 'message.output_text.logprobs', 'reasoning.encrypted_content', 'web_search_call.action.sources', 'web_search_call.results']"
"""Additional output data that a client of OpenAI's API can request."""

ResponseInputItem: TypeAlias = 'ResponseInputMessage | ResponseInputFunctionCall | ResponseInputFunctionCallOutput | ResponseInputReasoning | ResponseInputMcpCall | ResponseInputMcpApprovalRequest | ResponseInputMcpApprovalResponse | ResponseInputCompaction | ResponseInputItemReference'
"""An item of a conversation, in OpenAI's format."""

ResponseInputPart: TypeAlias = 'ResponseInputText | ResponseInputRefusal | ResponseInputImage | ResponseInputFile'
"""A part of a message, in OpenAI's format."""

ResponseItemStatus: TypeAlias = "Literal['in_progress', 'completed', 'incomplete', 'failed']"
"""Status of an output item. Later versions may add values."""

ResponseOutputItem: TypeAlias = 'ResponseOutputMessage | ResponseOutputReasoning | ResponseOutputFunctionCall | ResponseOutputMcpCall | ResponseOutputMcpApprovalRequest'
"""An item of a response. Later versions may add types. Clients must ignore unknown types."""

ResponseOutputPart: TypeAlias = 'ResponseOutputText | ResponseOutputRefusal'
"""A part of a message of a response. Later versions may add types. Clients must ignore
unknown types."""

ResponseStatus: TypeAlias = "Literal['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']"
"""Status of a response. Later versions may add values."""

ResponseStream: TypeAlias = 'str'
"""A stream of server-sent events in the format of OpenAI's Responses API. `event` is the
type, and `data` is a ResponseStreamEvent as one line of JSON."""

ResponseStreamEvent: TypeAlias = 'ResponseCreatedEvent | ResponseQueuedEvent | ResponseInProgressEvent | ResponseCompletedEvent | ResponseIncompleteEvent | ResponseFailedEvent | ResponseOutputItemAddedEvent | ResponseOutputItemDoneEvent | ResponseContentPartAddedEvent | ResponseContentPartDoneEvent | ResponseOutputTextDeltaEvent | ResponseOutputTextDoneEvent | ResponseRefusalDeltaEvent | ResponseRefusalDoneEvent | ResponseFunctionCallArgumentsDeltaEvent | ResponseFunctionCallArgumentsDoneEvent | ResponseMcpCallArgumentsDeltaEvent | ResponseMcpCallArgumentsDoneEvent | ResponseMcpCallInProgressEvent | ResponseMcpCallCompletedEvent | ResponseMcpCallFailedEvent | ResponseReasoningSummaryPartAddedEvent | ResponseReasoningSummaryPartDoneEvent | ResponseReasoningSummaryTextDeltaEvent | ResponseReasoningSummaryTextDoneEvent'
"""An event in a stream of `/v1/responses`. Later versions may add types. Clients must ignore
unknown types."""

ResponseTextPartType: TypeAlias = "Literal['input_text', 'output_text']"
"""Kind of a text part: `input_text` for text sent to the model, `output_text` for text from
the assistant."""

ResponseTool: TypeAlias = 'ResponseFunctionTool | ResponseNamespaceTool | ResponseMcpTool'
"""A function or a namespace of functions that the client runs, or registered tools, in
OpenAI's format."""

ResponseToolKind: TypeAlias = "Literal['function', 'mcp']"
"""Kind of a tool: a function that the client runs, or a registered tool (`mcp`)."""

RunErrorCode: TypeAlias = "Literal['model_unreachable', 'model_timeout', 'model_stream_broken', 'model_unavailable', 'model_rate_limited', 'model_circuit_open', 'model_unauthorized', 'model_not_found', 'model_misconfigured', 'model_refused_request', 'model_invalid_response', 'model_response_too_large', 'model_failed', 'unknown_model', 'unknown_price', 'call_id_reused', 'tool_error', 'invalid_arguments', 'tool_timeout', 'guardrail', 'hook_failed', 'max_turns', 'step_failed', 'crash_loop', 'run_unreadable', 'internal_error']"
"""Stable code of the error that a run failed with. Later versions may add values."""

RunItem: TypeAlias = 'RunMessageItem | RunToolCallItem | RunToolResultItem | RunReasoningItem | RunHostedCallItem'
"""An item of a conversation. Later versions may add types. Clients must ignore unknown
types."""

RunStatus: TypeAlias = "Literal['queued', 'in_progress', 'requires_action', 'completed', 'failed', 'cancelled', 'incomplete', 'expired']"
"""Status of a run. `queued`: the run waits for a worker, an earlier run of its session, or a
child run. `in_progress`: a worker executes the run, or the run waits only for callbacks.
`requires_action`: the run continues only after a person or a client acts. `completed`,
`failed`, and `cancelled` are final. `incomplete`: a limit ended the run. `expired`: the
deadline passed while the run was waiting. Later versions may add values."""

ScheduleMisfires: TypeAlias = "Literal['skip', 'once', 'all']"
"""Later versions may add values."""

ScheduleOverlap: TypeAlias = "Literal['skip', 'queue', 'replace']"
"""Later versions may add values."""

Scope: TypeAlias = "Literal['runs:read', 'runs:write', 'tools:write', 'approvals:decide', 'admin']"
"""Permission of an API key. `runs:read`: read all resources except API keys, webhook
endpoints, budgets, limits, the retention, legal holds and the audit log. `runs:write`:
start, change and erase runs and sessions. `tools:write`: change tools, agents, MCP
servers, secrets, and the policy. `approvals:decide`: decide on approvals and record
unknown outcomes. `admin`: manage API keys, webhook endpoints, budgets, limits, the
retention and legal holds, and read the audit log. Later versions may add values."""

SessionItem: TypeAlias = 'SessionMessageItem | SessionToolCallItem | SessionToolResultItem | SessionReasoningItem | SessionHostedCallItem'
"""An item of a conversation. Later versions may add types. Clients must ignore unknown
types."""

SlotSkipReason: TypeAlias = "Literal['overlap', 'queue_full', 'missed']"
"""Later versions may add values."""

SlotStatus: TypeAlias = "Literal['started', 'skipped', 'failed']"
"""Later versions may add values."""

SortOrder: TypeAlias = "Literal['asc', 'desc']"
"""Order of a list: ascending or descending."""

StreamedEvent: TypeAlias = 'RunCreatedEvent | RunStartedEvent | RunWaitingEvent | BudgetExceededEvent | RunResumedEvent | RunCompletedEvent | RunFailedEvent | RunCancelledEvent | RunIncompleteEvent | RunExpiredEvent | MessageCompletedEvent | ReasoningCompletedEvent | ToolCallCreatedEvent | ToolCallApprovalRequestedEvent | ToolCallApprovalDecidedEvent | ToolCallStartedEvent | ToolCallProgressEvent | ToolCallCompletedEvent | ToolCallFailedEvent | ToolCallTimedOutEvent | ToolCallRejectedEvent | ToolCallOutcomeUnknownEvent | ToolCallCancelledEvent | HandoffCompletedEvent | StateUpdatedEvent | InputReceivedEvent | UsageUpdatedEvent | ModelRetriedEvent | ModelSettingDroppedEvent | ModelCallsChangedEvent | MessageDeltaEvent | ReasoningDeltaEvent | ToolCallArgumentsDeltaEvent | MessageRestartedEvent'
"""An event in a stream. Events without a `sequence` are pieces of a later event and are
never stored. Later versions may add types. Clients must ignore unknown types."""

ToolChoiceInput: TypeAlias = 'ToolChoiceMode | NamedToolChoiceInput | FunctionToolChoice | NestedFunctionToolChoice'
"""Whether the model must call a tool, or the tool that it must call. The formats of OpenAI's
APIs are accepted."""

ToolChoiceMode: TypeAlias = "Literal['auto', 'none', 'required']"
"""Whether the model may (`auto`), must not (`none`), or must (`required`) call a tool. Later
versions may add values."""

ToolDefinition: TypeAlias = 'RegisterTool | FunctionTool | NestedFunctionTool'
"""A tool in Runward's format, or in the format of one of OpenAI's APIs."""

ToolEntry: TypeAlias = 'str | McpTools | InlineTool | InlineFunctionTool | InlineNestedFunctionTool | InlineNamespace'
"""A tool of a run or an agent: the name of a registered tool, tools of an MCP server, the
definition of a tool, or a namespace with definitions."""

ToolMedia: TypeAlias = "Literal['in_result', 'after_results']"
"""Where a model receives images and files of a tool. `in_result`: in the result of the tool
call. `after_results`: in a user message after the results. Later versions may add values."""

ToolRequest: TypeAlias = 'ToolCallRequest | ToolCallCancellation'
"""A request to a webhook tool. Later versions may add types. Clients must ignore unknown
types."""

ToolResponseMode: TypeAlias = "Literal['output', 'envelope']"
"""How Runward reads the response of a webhook tool: as the output of the call, or as an
envelope that contains the output. Later versions may add values."""

ToolTestOutcome: TypeAlias = "Literal['completed', 'accepted', 'failed']"
"""Outcome of a test call. `accepted`: the tool returned 202 and would submit the result
later. Later versions may add values."""

ToolType: TypeAlias = "Literal['webhook', 'plugin', 'agent', 'client', 'mcp', 'hosted', 'builtin', 'handoff']"
"""How Runward executes a tool. Later versions may add values."""

ToolUseMode: TypeAlias = "Literal['run_llm_again', 'stop_on_first_tool']"
"""Whether the model reads the results of tool calls or the first result ends the run. Later
versions may add values."""

Truncation: TypeAlias = "Literal['auto', 'disabled']"
"""What happens if the input exceeds the model's context window. `auto`: Runward drops the
oldest items. `disabled`: the request to the model fails. Later versions may add values."""

UnknownOutcomeMode: TypeAlias = "Literal['return_error', 'ask', 'fail_run']"
"""What happens if it is unknown whether a call took effect. Later versions may add values."""

Verbosity: TypeAlias = "Literal['low', 'medium', 'high']"
"""How detailed the model's answer should be."""

WaitingKind: TypeAlias = "Literal['approval', 'callback', 'tool_result', 'resolve', 'child_run']"
"""What a tool call waits for. `approval`: a decision. `callback`: a callback from the tool.
`tool_result`: a result or input from the client. `resolve`: a person who records the
outcome. `child_run`: a child run. Later versions may add values."""
