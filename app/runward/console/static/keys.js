// The project's API keys: list, create, revoke. A new key is shown once.

import { Problem, all, send } from "./api.js";
import { fill, h, note, text } from "./dom.js";
import { ago, moment, shortId } from "./format.js";
import { shownOnce } from "./secret.js";

const MOST = 400;
const DAY_MS = 86_400_000;
/** The scopes and the actions that they allow. @type {[string, string][]} */
const SCOPES = [
  ["runs:read", "Read runs, tools and approvals"],
  ["runs:write", "Start and control runs and schedules"],
  ["approvals:decide", "Decide approvals"],
  ["tools:write", "Register tools and agents"],
  ["admin", "Manage keys, webhook endpoints, budgets, limits, retention and legal holds, and read the audit log"],
];

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function keys(main, { who }) {
  const leaving = new AbortController();
  const body = h("tbody");
  const made = h("div", { "aria-live": "polite" });
  const name = h("input", { id: "key-name", type: "text", required: true, maxlength: "200", autocomplete: "off" });
  const days = h("select", { id: "key-days" }, [["", "Never"], ["1", "After one day"], ["30", "After 30 days"], ["365", "After one year"]].map(([value, label]) => h("option", { value }, label)));
  const scopes = SCOPES.map(([scope, about]) => ({ scope, box: h("input", { type: "checkbox", value: scope }), about }));
  const wrong = h("p", { class: "wrong", role: "alert" });
  const button = h("button", { class: "primary", type: "submit" }, "Create the key");
  const make = h("form", { class: "card form" },
    h("h2", null, "Create a key"),
    h("div", { class: "field" }, h("label", { for: "key-name" }, "Name of the key"), name),
    h("fieldset", null, h("legend", null, "Scopes of the key"), h("div", { class: "choices" }, scopes.map(({ scope, box, about }) => h("label", { class: "switch" }, box, " ", h("span", null, about, " ", h("code", { class: "soft" }, scope)))))),
    h("div", { class: "field" }, h("label", { for: "key-days" }, "Expires"), days),
    wrong, h("div", { class: "actions" }, button));
  fill(main, h("h1", null, "Keys"), made,
    h("div", { class: "wide" }, h("table", { class: "runs of-keys" }, h("caption", { class: "hidden" }, "Keys, newest first"),
      h("thead", null, h("tr", null, ["Name", "Id", "Scopes", "Created", "Expires", ""].map((title) => (title ? h("th", { scope: "col" }, title) : h("td"))))), body)), make);

  async function look() {
    try {
      const { data } = await all("v1/keys", {}, MOST, leaving.signal);
      fill(body, data.map(row));
    } catch (error) {
      if (leaving.signal.aborted || !(error instanceof Problem)) return;
      fill(main, h("h1", null, "Keys"), h("p", null, text(error.message)));
    }
  }

  /** @param {any} key */
  function row(key) {
    const over = key.revoked_at ?? (key.expires_at && Date.parse(key.expires_at) < Date.now() ? key.expires_at : null);
    const own = key.id === who.key.id;
    const ways = h("div", { class: "actions" });
    const revoke = h("button", { type: "button", class: "quiet small danger", "aria-label": `Revoke ${key.name}` }, "Revoke");
    const sure = h("button", { type: "button", class: "small danger" }, own ? "Revoke the key that you are using" : "Revoke the key");
    const keep = h("button", { type: "button", class: "quiet small" }, "Keep the key");
    fill(ways, revoke);
    revoke.addEventListener("click", () => {
      fill(ways, sure, keep);
      sure.focus();
    });
    keep.addEventListener("click", () => {
      fill(ways, revoke);
      revoke.focus();
    });
    sure.addEventListener("click", async () => {
      sure.disabled = true;
      try {
        await send("DELETE", `v1/keys/${key.id}`);
        note([text(key.name), " was revoked. The key and its sessions stop working within seconds."]);
        await look();
        if (!own) main.focus();
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        sure.disabled = false;
        note(text(error.message), "error");
      }
    });
    return h("tr", { class: over ? "soft" : null },
      h("th", { scope: "row" }, text(key.name), own ? h("span", { class: "soft" }, " (this session's)") : null),
      h("td", { "data-label": "Id" }, h("code", null, shortId(key.id))),
      h("td", { class: "what", "data-label": "Scopes" }, h("div", null, key.scopes.join(", "))),
      h("td", { title: moment(key.created_at), "data-label": "Created" }, ago(key.created_at, Date.now())),
      h("td", { "data-label": "Expires" }, key.revoked_at ? `revoked ${ago(key.revoked_at, Date.now())}` : key.expires_at ? moment(key.expires_at) : "never"),
      h("td", null, over ? null : ways));
  }

  make.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.disabled) return;
    fill(wrong);
    const chosen = scopes.filter(({ box }) => box.checked).map(({ scope }) => scope);
    const expires_at = days.value ? new Date(Date.now() + Number(days.value) * DAY_MS).toISOString() : null;
    button.disabled = true;
    try {
      const key = await send("POST", "v1/keys", { name: name.value.trim(), scopes: chosen, expires_at }, { "Idempotency-Key": crypto.randomUUID() });
      make.reset();
      const shown = shownOnce("The new key", "The key is not shown again. Anyone who has the key can use the scopes that you chose.", key.key);
      fill(made, shown);
      shown.focus();
      scrollTo(0, 0);
      await look();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      fill(wrong, text(chosen.length ? error.message : "Choose at least one scope."));
    } finally {
      button.disabled = false;
    }
  });
  void look();
  return () => leaving.abort();
}
