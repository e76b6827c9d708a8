// Signing in with an API key.

import { Problem, signIn } from "./api.js";
import { fill, h, text } from "./dom.js";

/**
 * Return the API key in the address, as in the line that `make run` prints: `#key=rw_…`. It is removed
 * from the address at once and only prefilled: a person still has to submit the form.
 */
export function offeredKey() {
  const key = /^#key=([\w-]+)$/.exec(location.hash)?.[1] ?? "";
  if (key) history.replaceState(null, "", location.pathname);
  return key;
}

/**
 * @param {HTMLElement} main
 * @param {string} offered The key to prefill, or an empty string.
 * @param {string} why The reason why the last session ended, or an empty string.
 * @returns {Promise<any>} The session.
 */
export function askForKey(main, offered, why) {
  return new Promise((resolve) => {
    const key = h("input", { id: "key", type: "password", autocomplete: "off", spellcheck: "false", required: true, value: offered, "aria-describedby": "key-wrong" });
    const wrong = h("p", { class: "wrong", id: "key-wrong", role: "alert" }, why);
    const button = h("button", { class: "primary", type: "submit" }, "Sign in");
    const form = h("form", { class: "sign-in card" },
      h("h1", null, "Runward"),
      h("p", { class: "soft" }, "Durable agents with human approval."),
      h("label", { for: "key" }, "API key"), key, wrong, button,
      h("p", { class: "small soft" }, "On your own machine ", h("code", null, "make run"), " prints the first key. The console exchanges the key for a session of 12 hours and does not store the key."),
      h("p", { class: "small" }, h("a", { href: "docs" }, "API reference"), " · ", h("a", { href: "openapi.json" }, "openapi.json")));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      button.disabled = true;
      try {
        resolve(await signIn(key.value.trim()));
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        fill(wrong, text(isSecureContext ? error.message : "The console needs https, or an address of this machine such as http://127.0.0.1."));
        button.disabled = false;
        key.select();
      }
    });
    fill(main, form);
    (offered ? button : key).focus();
  });
}
