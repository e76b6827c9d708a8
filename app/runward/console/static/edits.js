// Edits of a call's arguments that are not sent yet. They survive only a reload of the tab: the browser's
// session storage ends with the tab, and signing out clears it.

import { parse } from "./exact.js";

const PREFIX = "runward edit ";

/** @param {string} approvalId @returns {{arguments: any, message: string} | null} */
export function storedEdit(approvalId) {
  const stored = sessionStorage.getItem(PREFIX + approvalId);
  return stored === null ? null : parse(stored);
}

/** @param {string} approvalId @param {{arguments: any, message: string}} edit */
export function storeEdit(approvalId, edit) {
  try {
    sessionStorage.setItem(PREFIX + approvalId, JSON.stringify(edit));
  } catch {
    removeEdit(approvalId); // The edit is too large for the storage, and an older version would be misleading.
  }
}

/** @param {string} approvalId */
export function removeEdit(approvalId) {
  sessionStorage.removeItem(PREFIX + approvalId);
}

export function removeEdits() {
  for (const key of Object.keys(sessionStorage)) if (key.startsWith(PREFIX)) sessionStorage.removeItem(key);
}
